"""A contiguous KV cache: one growing buffer per sequence, rows in order of position."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class _Rows:
    """One sequence: keys and values [layers, kv heads, capacity, head dim], validity [capacity]."""

    def __init__(self, empty: Tensor) -> None:
        self.keys = empty
        self.values = empty
        self.valid = torch.ones(0, dtype=torch.bool, device=empty.device)
        self.all_valid = True
        self.length = 0
        self.tentative = 0


class KVCache:
    """Keys and values of all sequences of one model.

    Row i of a sequence belongs to position i. Buffers grow by doubling, so that views taken before a
    `reserve` must not be kept across it.
    """

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        initial_rows: int = 256,
    ) -> None:
        self._empty = torch.empty(layers, kv_heads, 0, head_dim, dtype=dtype, device=device)
        self._initial_rows = initial_rows
        self._sequences: dict[int, _Rows] = {}
        self._next_id = 0

    def open(self) -> int:
        """Start an empty sequence; returns its id."""
        self._sequences[self._next_id] = _Rows(self._empty)
        self._next_id += 1
        return self._next_id - 1

    def close(self, sequence: int) -> None:
        """Forget a sequence and free its memory."""
        del self._sequences[sequence]

    def fork(self, sequence: int, rows: int) -> int:
        """A new sequence with a copy of the first `rows` committed rows of another; returns its id."""
        source = self._sequences[sequence]
        if not 0 <= rows <= source.length:
            raise ValueError(f"fork needs 0 to {source.length} rows, found {rows}")
        copy = self.open()
        own = self._sequences[copy]
        own.keys, own.values = (_room(buffer[:, :, :rows]) for buffer in (source.keys, source.values))
        own.valid = torch.ones(own.keys.shape[2], dtype=torch.bool, device=own.valid.device)
        own.valid[:rows] = source.valid[:rows]
        own.all_valid = source.all_valid or bool(own.valid.all())
        own.length = rows
        return copy

    def length(self, sequence: int) -> int:
        """Committed rows of a sequence."""
        return self._sequences[sequence].length

    def reserve(self, sequence: int, rows: int) -> int:
        """Make room for `rows` tentative rows after the committed ones; returns the first one's index.

        Earlier tentative rows that were not committed are dropped. New rows are valid.
        """
        state = self._sequences[sequence]
        need, have = state.length + rows, state.valid.shape[0]
        if need > have:
            capacity = max(need, 2 * have, self._initial_rows)
            state.keys = _grown(state.keys, 2, capacity)
            state.values = _grown(state.values, 2, capacity)
            state.valid = _grown(state.valid, 0, capacity)
        if not state.all_valid:
            state.valid[state.length : need] = True
        state.tentative = rows
        return state.length

    def keys(self, sequence: int) -> Tensor:
        """Buffer of keys [layers, kv heads, capacity, head dim]; write tentative rows into it."""
        return self._sequences[sequence].keys

    def values(self, sequence: int) -> Tensor:
        """Buffer of values [layers, kv heads, capacity, head dim]; write tentative rows into it."""
        return self._sequences[sequence].values

    def commit(self, sequence: int, rows: Sequence[int]) -> None:
        """Keep the tentative rows `rows` (indices from 0, increasing), compacted in place."""
        state = self._sequences[sequence]
        kept = list(rows)
        if kept != sorted(set(kept)) or (kept and not 0 <= kept[0] <= kept[-1] < state.tentative):
            raise ValueError(f"commit needs increasing rows below {state.tentative}, found {kept}")
        if kept != list(range(len(kept))):
            source = torch.tensor(kept, device=state.keys.device) + state.length
            end = state.length + len(kept)
            state.keys[:, :, state.length : end] = state.keys[:, :, source]
            state.values[:, :, state.length : end] = state.values[:, :, source]
            state.valid[state.length : end] = state.valid[source]
        state.length += len(kept)
        state.tentative = 0

    def validity(self, sequence: int) -> Tensor | None:
        """Validity of all rows, committed and tentative: bool [rows], or `None` when all are valid."""
        state = self._sequences[sequence]
        return None if state.all_valid else state.valid[: state.length + state.tentative]

    def invalidate(self, sequence: int, rows: slice) -> None:
        """Mark committed rows as unwritten: attention must not see them."""
        state = self._sequences[sequence]
        state.valid[: state.length][rows] = False
        state.all_valid = bool(state.valid[: state.length].all())


FORK_ROOM = 32
"""Rows that a forked sequence can take before its buffer has to grow."""


def _room(rows: Tensor) -> Tensor:
    layers, heads, count, size = rows.shape
    out = rows.new_zeros(layers, heads, count + FORK_ROOM, size)
    out[:, :, :count] = rows
    return out


def _grown(buffer: Tensor, axis: int, size: int) -> Tensor:
    shape = list(buffer.shape)
    shape[axis] = size - shape[axis]
    fill = torch.ones(shape, dtype=buffer.dtype, device=buffer.device)
    return torch.cat([buffer, fill], dim=axis)
