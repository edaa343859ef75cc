"""The target's features, kept once for all hypotheses: in memory up to a bound, then on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from truedraft.contract import InputError

Tap = tuple[int, str]
"""A layer (axis `taps.layers`) and the state that is read there (`taps.state`)."""


class FeatureStore:
    """Features [rows, taps x H] of texts, in fp32. A context manager: closing it removes what is on disk.

    `taps`: the taps whose features are kept, in order. `memory`: bytes that may be held in memory.
    """

    def __init__(self, taps: Sequence[Tap], hidden_size: int, memory: int) -> None:
        self.taps = tuple(taps)
        self._hidden = hidden_size
        self._left = memory
        self._entries: list[NDArray[np.float32] | tuple[int, tuple[int, int]]] = []
        try:
            self._file = tempfile.TemporaryFile(prefix="truedraft-features-")  # noqa: SIM115
        except OSError as error:
            raise InputError(
                f"TMPDIR: {error.strerror or error}, expected a directory for temporary files"
            ) from None

    def __enter__(self) -> FeatureStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def spilled(self) -> int:
        """Texts whose features are on disk."""
        return sum(isinstance(entry, tuple) for entry in self._entries)

    def add(self, features: Tensor) -> None:
        """Keep the features of the next text, [rows, taps x H].

        Raises `InputError` where neither memory nor the disk has room for them.
        """
        rows = features.detach().to("cpu", torch.float32).numpy()
        if rows.nbytes <= self._left:
            self._left -= rows.nbytes
            self._entries.append(rows)
            return
        start = self._file.seek(0, 2)
        try:
            self._file.write(rows.tobytes())
            self._file.flush()
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: {error.strerror}, expected room for {start + rows.nbytes} bytes "
                "of features or more; hold more in memory (--memory-mb) or set TMPDIR to a larger disk"
            ) from None
        self._entries.append((start, (rows.shape[0], rows.shape[1])))

    def get(self, text: int, taps: Sequence[Tap]) -> Tensor:
        """Features [rows, len(taps) x H] of a text, for these taps in this order."""
        entry = self._entries[text]
        if not isinstance(entry, tuple):
            whole = entry
        else:
            start, shape = entry
            whole = np.memmap(self._file, dtype=np.float32, mode="r", offset=start, shape=shape)
        begins = [self.taps.index(tap) * self._hidden for tap in taps]
        return torch.from_numpy(np.concatenate([whole[:, b : b + self._hidden] for b in begins], -1))
