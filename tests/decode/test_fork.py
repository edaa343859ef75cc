"""Forked sequences: the same rows, and neither sequence ever sees what the other writes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from truedraft.decode import KVCache
from truedraft.decode.cache import FORK_ROOM
from truedraft.models.chain import ChainCache


def filled(rows: int, *, tentative: int = 0) -> tuple[KVCache, int]:
    """A cache with one sequence whose row i holds i + 1 in every place."""
    cache = KVCache(2, 3, 4, initial_rows=2)
    sequence = cache.open()
    write(cache, sequence, rows, 1)
    cache.commit(sequence, range(rows))
    if tentative:
        write(cache, sequence, tentative, 500)
    return cache, sequence


def write(cache: KVCache, sequence: int, rows: int, first: float) -> int:
    start = cache.reserve(sequence, rows)
    values = torch.arange(first, first + rows)[:, None]
    cache.keys(sequence)[:, :, start : start + rows] = values
    cache.values(sequence)[:, :, start : start + rows] = -values
    return start


def rows_of(cache: KVCache, sequence: int) -> list[float]:
    """The committed rows' numbers, alike in all layers, heads and dimensions."""
    count = cache.length(sequence)
    keys, values = cache.keys(sequence)[:, :, :count], cache.values(sequence)[:, :, :count]
    assert torch.equal(keys, -values)
    assert (keys == keys[:1, :1, :, :1]).all()
    return [float(number) for number in keys[0, 0, :, 0]]


@pytest.mark.parametrize("rows", [0, 1, 5, 9])
def test_a_fork_has_the_first_rows(rows: int) -> None:
    cache, whole = filled(9, tentative=3)
    copy = cache.fork(whole, rows)
    assert copy != whole
    assert cache.length(copy) == rows
    assert rows_of(cache, copy) == [float(i + 1) for i in range(rows)]
    assert cache.validity(copy) is None
    assert cache.reserve(copy, 1) == rows


def test_writes_leak_neither_way() -> None:
    cache, whole = filled(6)
    one, other = cache.fork(whole, 6), cache.fork(whole, 4)
    for sequence, first in ((one, 100), (other, 200), (whole, 300)):
        write(cache, sequence, 2, first)
        cache.keys(sequence)[:, :, 0] = first  # even a row that was there before
        cache.values(sequence)[:, :, 0] = -first
        cache.commit(sequence, [1])
    assert rows_of(cache, one) == [100, 2, 3, 4, 5, 6, 101]
    assert rows_of(cache, other) == [200, 2, 3, 4, 201]
    assert rows_of(cache, whole) == [300, 2, 3, 4, 5, 6, 301]
    cache.close(whole)
    assert rows_of(cache, one) == [100, 2, 3, 4, 5, 6, 101]


@pytest.mark.parametrize("more", [FORK_ROOM, FORK_ROOM + 1, 5 * FORK_ROOM])
def test_a_fork_grows_behind_its_room(more: int) -> None:
    cache, whole = filled(5)
    copy = cache.fork(whole, 5)
    write(cache, copy, more, 50)
    cache.commit(copy, range(more))
    write(cache, copy, 3, 900)
    cache.commit(copy, (0, 2))
    assert rows_of(cache, copy) == [1, 2, 3, 4, 5, *range(50, 50 + more), 900, 902]
    assert rows_of(cache, whole) == [1, 2, 3, 4, 5]


def test_the_validity_mask_is_copied_and_then_the_fork_s_own() -> None:
    cache, whole = filled(6)
    cache.invalidate(whole, slice(1, 3))
    copy, short = cache.fork(whole, 5), cache.fork(whole, 1)
    assert validity(cache, copy) == [True, False, False, True, True]
    assert cache.validity(short) is None  # its one row is valid
    cache.reserve(copy, 2)
    assert validity(cache, copy) == [True, False, False, True, True, True, True]
    cache.commit(copy, (0, 1))
    cache.invalidate(copy, slice(4, 6))
    cache.invalidate(short, slice(0, 1))
    assert validity(cache, copy) == [True, False, False, True, False, False, True]
    assert validity(cache, short) == [False]
    assert validity(cache, whole) == [True, False, False, True, True, True]


def validity(cache: KVCache, sequence: int) -> list[bool]:
    mask = cache.validity(sequence)
    assert mask is not None
    return [bool(entry) for entry in mask]


def test_forks_of_forks_and_many_at_once() -> None:
    cache, whole = filled(4)
    forks = [cache.fork(whole, rows) for rows in (1, 2, 3, 4)]
    deeper = [cache.fork(fork, cache.length(fork) - 1) for fork in forks]
    assert len({whole, *forks, *deeper}) == 9
    assert [rows_of(cache, fork) for fork in deeper] == [[], [1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("rows", [-1, 5, 7])
def test_only_committed_rows_can_be_forked(rows: int) -> None:
    cache, whole = filled(4, tentative=3)
    with pytest.raises(ValueError, match=f"fork needs 0 to 4 rows, found {rows}"):
        cache.fork(whole, rows)
    with pytest.raises(KeyError):
        cache.fork(whole + 1, 0)


# ------------------------------------------------------------------------------------------- chains


def chain() -> tuple[ChainCache, int]:
    """Seven rows, of which the last four came in last; their outputs hold their numbers."""
    cache = ChainCache(1, 1, 2, torch.device("cpu"))
    sequence = cache.open()
    for first, count in ((1, 3), (4, 4)):
        write(cache, sequence, count, first)
        cache.commit(sequence, range(count))
        cache.recent[sequence] = torch.arange(first, first + count)[:, None] * torch.ones(1, 5)
    return cache, sequence


@pytest.mark.parametrize("rows", [4, 5, 7])
def test_a_chain_s_fork_ends_in_the_output_of_its_last_row(rows: int) -> None:
    cache, whole = chain()
    copy = cache.fork(whole, rows)
    assert rows_of(cache, copy) == list(range(1, rows + 1))
    assert cache.recent[copy][-1].tolist() == [rows] * 5
    assert cache.recent[copy][:, 0].tolist() == list(range(4, rows + 1))
    cache.close(copy)
    assert list(cache.recent) == [whole]
    assert cache.recent[whole][:, 0].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("rows", [0, 3, 8])
def test_a_chain_s_fork_needs_an_output_to_draft_from(rows: int) -> None:
    cache, whole = chain()
    before: Any = set(cache._sequences)
    with pytest.raises(ValueError, match=f"fork needs 4 to 7 rows, found {rows}"):
        cache.fork(whole, rows)
    assert set(cache._sequences) == before
