"""Taking back rows of DeepSeek-V4's compressed layers: exact algebra on what the last forward put in.

A layer holds a sliding window and, per compressor, a buffer of rows not yet compressed, one entry per
closed chunk of `compress_rate` rows, and (rate 4) the first half of the last closed chunk, which the next
entry overlaps. An entry depends on earlier rows only, so dropping rows means fewer entries, and the
buffer and the overlap are cut anew from the rows of the last forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4CSACache, DeepseekV4HCACache


@dataclass
class _Compressor:
    """One compressor before the last forward's rows were compressed.

    `rows`, `gates` [1, n, D]: buffered rows and those of the forward. `entries`: entries before.
    `overlap`: first half of the last closed chunk, rows and gates [1, rate, D / 2]; `chunks` [1, closed,
    rate, D]: those closed.
    """

    rows: Tensor
    gates: Tensor
    entries: int
    overlap: tuple[Tensor | None, Tensor | None] = (None, None)
    chunks: tuple[Tensor, Tensor] | None = None


class _Journal:
    """Remembers the last forward's inputs; comes before a cache layer of DeepSeek-V4 in the bases."""

    _layer_type = None  # transformers registers every subclass that names a layer type of its own

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        self._window: Tensor | None = None
        self._compressors: dict[str, _Compressor] = {}

    def update(
        self: Any, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """As the parent's, keeping the rows that slide out; [1, 1, rows, D], keys are values."""
        full, _values = super().update(key_states, value_states)  # type: ignore[misc]
        self._window = full
        return full, full

    def store_compression_weights(
        self: Any, name: str, kv: Tensor, gate: Tensor
    ) -> tuple[Tensor, Tensor, int]:
        """As the parent's, keeping the rows that a chunk swallows."""
        rows, gates = (
            _joined(old[name], new) for old, new in ((self.buffer_kv, kv), (self.buffer_gate, gate))
        )
        self._compressors[name] = _Compressor(rows, gates, self.entry_count[name])
        if hasattr(self, "overlap_kv"):
            self._compressors[name].overlap = self.overlap_kv[name], self.overlap_gate[name]
        stored: tuple[Tensor, Tensor, int] = super().store_compression_weights(name, kv, gate)  # type: ignore[misc]
        return stored

    def crop(self: Any, tokens_to_remove: int) -> None:
        """Drop the last `-tokens_to_remove` rows of the last forward."""
        removed, full = -tokens_to_remove, self._window
        if full is not None and removed > 0:
            end = full.shape[2] - removed
            self.keys = self.values = full[:, :, max(0, end - self.sliding_window + 1) : end]
            self.cumulative_length -= removed
            for name, before in self._compressors.items():
                self._crop_compressor(name, before, before.rows.shape[1] - removed)
        self._window, self._compressors = None, {}

    def _crop_compressor(self: Any, name: str, before: _Compressor, rows: int) -> None:
        closed = rows // self.compress_rate
        rest = slice(closed * self.compress_rate, rows)
        self.buffer_kv[name], self.buffer_gate[name] = before.rows[:, rest], before.gates[:, rest]
        self.entry_count[name] = before.entries + closed
        self.compressed_kv[name] = self.compressed_kv[name][:, : before.entries + closed]
        if hasattr(self, "overlap_kv"):
            overlap = before.overlap
            if closed and before.chunks is not None:
                overlap = before.chunks[0][:, closed - 1], before.chunks[1][:, closed - 1]
            self.overlap_kv[name], self.overlap_gate[name] = overlap


def _joined(buffered: Tensor | None, rows: Tensor) -> Tensor:
    return rows if buffered is None or not buffered.shape[1] else torch.cat([buffered, rows], 1)


class RewindHeavily(_Journal, DeepseekV4HCACache):  # type: ignore[misc, no-untyped-call]
    """Layers of rate 128: one compressor, no overlap."""


class RewindSparse(_Journal, DeepseekV4CSACache):  # type: ignore[misc, no-untyped-call]
    """Layers of rate 4: compressor and indexer, chunks overlap."""

    def update_overlap_state(
        self, name: str, chunk_kv: Tensor, chunk_gate: Tensor, head_dim: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """As the parent's, keeping the first half of every closed chunk."""
        halves = chunk_kv[..., :head_dim], chunk_gate[..., :head_dim]
        self._compressors[name].chunks = halves
        prior: tuple[Tensor | None, Tensor | None] = super().update_overlap_state(
            name, chunk_kv, chunk_gate, head_dim
        )
        return prior


REWINDABLE = {DeepseekV4HCACache: RewindHeavily, DeepseekV4CSACache: RewindSparse}
"""transformers' class of a layer to the one that takes its place."""
