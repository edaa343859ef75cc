"""Faults of state, which no axis describes: exactly the rows that they spoil, and that the output stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from faults import FreedBlocksZeroed, packed_layers, with_cache
from truedraft import Decoder, load_pair, resolve
from truedraft.decode import Generation, KVCache
from truedraft.formats import evaluation_prompts
from truedraft.formats.engines import KvLayout, without

ROWS, BLOCKS, COUNT = 8, 128, 90
Spoilt = set[tuple[int, int]]
"""Pairs of a layer and a row."""
Layouts = Callable[[KVCache], KvLayout]


def fault(layout: KvLayout) -> type[FreedBlocksZeroed]:
    return type("Zeroed", (FreedBlocksZeroed,), {"layout": layout})


def row_bytes(layout: KvLayout) -> int:
    return layout.views[0].shape[2]


def right(cache: KVCache) -> KvLayout:
    return packed_layers(cache, BLOCKS, ROWS)


def packed_stride(cache: KVCache) -> KvLayout:
    """The founding report: the stride of a packed block is taken for the span of each of its layers."""
    return packed_layers(cache, BLOCKS, ROWS, right(cache).views[0].stride)


def five_rows_over(cache: KVCache) -> KvLayout:
    layout = right(cache)
    return packed_layers(cache, BLOCKS, ROWS, layout.zero_span + 5 * row_bytes(layout))


def own(heads: int = 2, layers: int = 4) -> KVCache:
    return KVCache(layers, heads, 3, initial_rows=4)


def written(cache: KVCache, sequence: int, rows: int) -> None:
    """Rows without a zero, committed."""
    first = cache.reserve(sequence, rows)
    for buffer in (cache.keys(sequence), cache.values(sequence)):
        buffer[:, :, first : first + rows] = 1 + torch.rand(buffer[:, :, first : first + rows].shape)
    cache.commit(sequence, range(rows))


def zeros(cache: KVCache, sequence: int) -> Spoilt:
    """Rows whose keys and values are all zero; in every other row none may be."""
    count = cache.length(sequence)
    keys, values = cache.keys(sequence)[:, :, :count], cache.values(sequence)[:, :, :count]
    both = torch.cat([keys, values], -1).transpose(1, 2).flatten(2) == 0
    assert torch.equal(both.all(-1), both.any(-1))
    return {(int(layer), int(row)) for layer, row in both.all(-1).nonzero()}


@pytest.mark.parametrize(
    ("make", "spoilt"),
    [
        (right, set()),
        # the block behind the freed one, but for its last layer: from there the span reaches no further
        (packed_stride, {(layer, row) for layer in range(3) for row in range(8, 16)}),
        (five_rows_over, {(0, row) for row in range(8, 13)}),
    ],
)
def test_a_zeroer_spoils_exactly_the_rows_on_its_bytes(make: Layouts, spoilt: Spoilt) -> None:
    """Blocks 0, 2 and 3 of one sequence, 1 of another that is closed: 2 holds rows 8 to 15 of the first."""
    cache = fault(make(own()))(4, 2, 3, initial_rows=4)
    first, other = cache.open(), cache.open()
    written(cache, first, 8)
    written(cache, other, 8)
    written(cache, first, 14)
    assert cache.tables == {first: [0, 2, 3], other: [1]}
    before = cache.keys(first).clone(), cache.values(first).clone()
    cache.close(other)
    assert zeros(cache, first) == spoilt
    for buffer, was in zip((cache.keys(first), cache.values(first)), before, strict=True):
        for layer in range(4):
            kept = [row for row in range(22) if (layer, row) not in spoilt]
            assert torch.equal(buffer[layer][:, kept], was[layer][:, kept])
    written(cache, first, 3)
    assert cache.tables == {first: [0, 2, 3, 1]}  # the freed block is taken again


def on_bytes(layout: KvLayout, freed: list[int], table: list[int], rows: int) -> Spoilt:
    """Rows of a sequence with every byte among those that the zeroer clears beside the freed ones."""
    cleared = [without(layout.zeroed(block), layout.freed(block)) for block in freed]
    found = set()
    for layer, view in enumerate(layout.views):
        for row in range(rows):
            begin = view.rows(table[row // ROWS])[0] + row % ROWS * view.shape[2]
            bytes_of_row = ((begin, begin + view.shape[2]),)
            if any(not without(bytes_of_row, spans) for spans in cleared):
                found.add((layer, row))
    return found


@dataclass(frozen=True)
class Decoded:
    """Two prompts in a batch, and the first one's zero rows when the second ended: found, and `expected`."""

    runs: list[Generation]
    zeroed: Spoilt
    expected: Spoilt


def decoded(make: Layouts, prompts: list[list[int]]) -> Decoded:
    pair = load_pair(resolve("tiny/dflash"))
    layout = make(pair.drafter.new_cache())
    seen: list[tuple[Spoilt, Spoilt]] = []

    class Watched(fault(layout)):  # type: ignore[misc]
        def close(self, sequence: int) -> None:
            freed = list(self.tables[sequence])
            super().close(sequence)
            for other, table in self.tables.items():
                seen.append((zeros(self, other), on_bytes(layout, freed, table, self.length(other))))

    drafter = with_cache(pair.drafter, Watched)
    runs = Decoder(pair.target, drafter, keep_drafts=True).generate(prompts, COUNT)
    ((zeroed, expected),) = seen  # the first prompt is decoded further, then closed as the last
    return Decoded(runs, zeroed, expected)


def test_decoding_with_such_a_zeroer_loses_drafts_and_nothing_else() -> None:
    pair = load_pair(resolve("tiny/dflash"))
    texts = [evaluation_prompts("tiny")[0][index]["text"] for index in (0, 3)]
    prompts = [pair.tokenizer(text).input_ids for text in texts]
    plain = [run.tokens for run in Decoder(pair.target).generate(prompts, COUNT)]
    intact = Decoder(pair.target, pair.drafter, keep_drafts=True).generate(prompts, COUNT)
    unharmed, spoilt = decoded(right, prompts), decoded(packed_stride, prompts)
    assert unharmed.zeroed == unharmed.expected == set()
    assert [run.drafts for run in unharmed.runs] == [run.drafts for run in intact]
    assert spoilt.zeroed == spoilt.expected
    assert {layer for layer, _ in spoilt.zeroed} == {0, 1}  # of three layers, all but the last
    for runs in (intact, unharmed.runs, spoilt.runs):
        assert [run.tokens for run in runs] == plain
    assert spoilt.runs[0].drafts != intact[0].drafts
    assert spoilt.runs[1].drafts == intact[1].drafts
