import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truedraft.decode import KVCache


@settings(deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=8))
def test_commit_keeps_exactly_the_chosen_rows(steps):
    cache = KVCache(2, 1, 3, initial_rows=2)
    sequence, other = cache.open(), cache.open()
    cache.reserve(other, 1)
    kept, number = [], 0.0
    for step in steps:
        start = cache.reserve(sequence, len(step))
        assert start == len(kept) == cache.length(sequence)
        chosen = []
        for row, keep in enumerate(step):
            cache.keys(sequence)[:, :, start + row] = number
            cache.values(sequence)[:, :, start + row] = -number
            if keep:
                chosen.append(row)
                kept.append(number)
            number += 1
        cache.commit(sequence, chosen)
        rows = torch.tensor(kept)
        assert torch.equal(cache.keys(sequence)[1, 0, : len(kept), 2], rows)
        assert torch.equal(cache.values(sequence)[0, 0, : len(kept), 0], -rows)
    assert cache.length(other) == 0


@pytest.mark.parametrize("rows", [[2], [1, 0], [0, 0], [-1]])
def test_commit_refuses_rows_that_were_not_written_in_order(rows):
    cache = KVCache(1, 1, 1)
    sequence = cache.open()
    cache.reserve(sequence, 2)
    with pytest.raises(ValueError, match="increasing rows below 2"):
        cache.commit(sequence, rows)


def test_validity_follows_rows_through_compaction_and_growth():
    cache = KVCache(1, 1, 1, initial_rows=4)
    sequence = cache.open()
    cache.reserve(sequence, 3)
    cache.commit(sequence, range(3))
    assert cache.validity(sequence) is None
    cache.invalidate(sequence, slice(1, 2))
    cache.reserve(sequence, 4)
    cache.commit(sequence, [1, 3])
    validity = cache.validity(sequence)
    assert validity is not None
    assert validity.tolist() == [True, False, True, True, True]
