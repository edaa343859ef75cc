"""Faults of state, which no axis describes: caches that lose or spoil context rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from truedraft.decode import KVCache


class LastRowMissing(KVCache):
    """The newest context row is never visible: the drafter's context lags by one row."""

    def validity(self, sequence: int) -> Tensor | None:
        committed = self.length(sequence)
        rows = torch.ones(committed + self._sequences[sequence].tentative, dtype=torch.bool)
        rows[max(committed - 1, 0) : committed] = False
        return rows


class RowsUnwritten(KVCache):
    """Context rows of the first `count` positions hold zeros, as after a prefix-cache hit."""

    count = 64

    def commit(self, sequence: int, rows: Any) -> None:
        super().commit(sequence, rows)
        self.keys(sequence)[:, :, : self.count] = 0
        self.values(sequence)[:, :, : self.count] = 0


def with_cache(drafter: Any, fault: type[KVCache]) -> Any:
    """The same drafter, opening caches of its own kind with the given fault."""
    make = drafter.new_cache

    def faulty() -> Any:
        cache = make()
        cache.__class__ = type(fault.__name__, (fault, type(cache)), {})
        return cache

    drafter.new_cache = faulty
    return drafter
