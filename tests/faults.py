"""Faults of state, which no axis describes: caches that lose or spoil context rows."""

from __future__ import annotations

from functools import cached_property
from itertools import count
from typing import Any

import torch
from torch import Tensor

from truedraft.decode import KVCache
from truedraft.formats.engines import KvLayout, KvView, without


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


class FreedBlocksZeroed(KVCache):
    """Rows lie in the blocks of `layout`; a closed sequence's blocks are zeroed as the layout says.

    View i is layer i: a row is its keys [kv heads, head dim], then its values. Blocks are taken as rows are
    reserved, the lowest free one first. Of a right zeroer nothing is seen here: the freed rows are gone. One
    that takes a packed block's stride for the span of each view (vllm#50276) clears rows of other sequences.
    """

    layout: KvLayout

    @cached_property
    def tables(self) -> dict[int, list[int]]:
        """The blocks of every open sequence, in order of position."""
        return {}

    def open(self) -> int:
        sequence = super().open()
        self.tables[sequence] = []
        return sequence

    def reserve(self, sequence: int, rows: int) -> int:
        first, table = super().reserve(sequence, rows), self.tables[sequence]
        blocks, rows_per_block, _ = self.layout.views[0].shape
        while len(table) * rows_per_block < first + rows:
            taken = {block for other in self.tables.values() for block in other}
            table.append(next(block for block in count() if block not in taken))
            assert table[-1] < blocks, "the layout has too few blocks"
        return first

    def close(self, sequence: int) -> None:
        super().close(sequence)
        for block in self.tables.pop(sequence):
            for begin, end in without(self.layout.zeroed(block), self.layout.freed(block)):
                self._clear(begin, end)

    def _clear(self, begin: int, end: int) -> None:
        """Zero these bytes of the allocation where rows of open sequences lie on them."""
        for sequence, table in self.tables.items():
            for layer, view in enumerate(self.layout.views):
                for number, block in enumerate(table):
                    low, high = view.rows(block)
                    if begin < high and low < end:
                        part = slice(max(begin - low, 0), min(end, high) - low)
                        self._clear_block(sequence, layer, number * view.shape[1], view, part)

    @torch.inference_mode()  # as the rows were written
    def _clear_block(self, sequence: int, layer: int, row: int, view: KvView, part: slice) -> None:
        keys, values = self.keys(sequence)[layer], self.values(sequence)[layer]
        size = keys.element_size()
        assert view.shape[2] == 2 * keys.shape[0] * keys.shape[2] * size, "the view is of other rows"
        rows = slice(row, row + view.shape[1])  # at the end of the buffer there may be fewer
        packed = torch.stack([keys[:, rows], values[:, rows]]).permute(2, 0, 1, 3).contiguous()
        packed.flatten()[part.start // size : part.stop // size] = 0
        keys[:, rows], values[:, rows] = packed.permute(1, 2, 0, 3)


def packed_layers(cache: KVCache, blocks: int, rows: int, span: int | None = None) -> KvLayout:
    """The layers of a cache behind each other in every block. `span`: what its zeroer clears of each view.

    By default the right span, a block of one layer.
    """
    layers, heads, _, head_dim = cache.keys(cache.open()).shape
    row_bytes = 2 * heads * head_dim * torch.tensor([], dtype=torch.float32).element_size()
    stride = layers * rows * row_bytes
    views = [KvView((blocks, rows, row_bytes), i * rows * row_bytes, stride) for i in range(layers)]
    return KvLayout(tuple(views), blocks * stride, rows * row_bytes if span is None else span, stride)


def with_cache(drafter: Any, fault: type[KVCache]) -> Any:
    """The same drafter, opening caches of its own kind with the given fault."""
    make = drafter.new_cache

    def faulty() -> Any:
        cache = make()
        cache.__class__ = type(fault.__name__, (fault, type(cache)), {})
        return cache

    drafter.new_cache = faulty
    return drafter
