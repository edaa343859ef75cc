"""Best-first trees against all prefixes by probability."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truedraft.contract import InputError
from truedraft.decode import Tree, grow, ranked

Path = tuple[int, ...]


class Law:
    """Log probabilities by path, with ties; counts how often it is asked."""

    def __init__(self, row: Callable[[Path], list[float]]) -> None:
        self.row = row
        self.asked: list[Path] = []

    def children(self, path):
        self.asked.append(path)
        row = self.row(path)
        return sorted(((value, token) for token, value in enumerate(row)), key=lambda x: (-x[0], x[1]))


def random_law(seed: int, size: int, kind: str) -> Law:
    """Weights are powers of two, so that ties abound; some tokens are impossible."""

    def row(path: Path) -> list[float]:
        seen = {"slots": len(path), "markov": (len(path), path[-1:]), "free": path}[kind]
        rng = random.Random(f"{seed} {seen}")
        return [rng.choice([-math.inf, -3.0, -2.0, -1.0, -1.0, -0.5]) for _ in range(size)]

    return Law(row)


def every_prefix(law: Law, size: int, depth: int) -> list[Path]:
    """All possible prefixes, most probable first, equal ones by the ranks of their tokens: the oracle."""
    keyed = []
    for length in range(1, depth + 1):
        for path in itertools.product(range(size), repeat=length):
            weight, ranks = 0.0, []
            for i, token in enumerate(path):
                row = law.row(path[:i])
                weight += row[token]
                ranks.append(sorted(range(size), key=lambda t, row=row: (-row[t], t)).index(token))
            if weight > -math.inf:
                keyed.append((-weight, ranks, path))
    return [path for *_, path in sorted(keyed)]


def paths(tree: Tree) -> list[Path]:
    out: list[Path] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        out.append((*out[parent], token) if parent >= 0 else (token,))
    return out


@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 90),
    st.sampled_from(["slots", "markov", "free"]),
)
def test_the_tree_is_the_most_probable_prefixes_in_order(seed, size, depth, budget, kind):
    law = random_law(seed, size, kind)
    tree = grow(law, budget, depth)
    assert paths(tree) == every_prefix(law, size, depth)[:budget]
    assert tree.depths == tuple(map(len, paths(tree)))
    assert len(law.asked) <= budget
    assert len(set(law.asked)) == len(law.asked)


def test_a_budget_of_one_draft_per_slot_and_a_peaked_drafter_make_the_chain():
    law = Law(lambda path: [math.log(0.9) if token == len(path) else math.log(0.025) for token in range(5)])
    assert grow(law, 4, 4) == Tree((0, 1, 2, 3), (-1, 0, 1, 2))
    flat = Law(lambda path: [math.log(0.3), math.log(0.25), math.log(0.2), math.log(0.15), math.log(0.1)])
    assert grow(flat, 4, 4) == Tree((0, 1, 2, 3), (-1,) * 4)


def test_ranked_is_exact_and_breaks_ties_by_id():
    logits = torch.tensor([[1.0, 3.0, 1.0, 3.0, 1.0], [0.0, -math.inf, 0.0, 0.0, 0.0]])
    first, second = ranked(logits, 3)
    assert [token for _, token in first] == [1, 3, 0]
    assert [token for _, token in second] == [0, 2, 3]
    for row, own in zip((first, second), logits, strict=True):
        wanted = torch.log_softmax(own, -1)
        assert [value for value, _ in row] == [float(wanted[token]) for _, token in row]
    assert [len(row) for row in ranked(logits, 99)] == [5, 5]


def test_ranked_refuses_what_is_no_law():
    with pytest.raises(InputError, match="the drafter's logits: found NaN"):
        ranked(torch.tensor([[0.0, math.nan]]), 1)


def test_a_tree_is_cut_at_a_depth():
    tree = Tree((5, 6, 7, 8, 9), (-1, 0, -1, 1, 2))
    assert tree.depths == (1, 2, 1, 3, 2)
    assert tree.depth == 3
    assert tree.within(3) is tree
    assert tree.within(2) == Tree((5, 6, 7, 9), (-1, 0, -1, 2))
    assert tree.within(1) == Tree((5, 7), (-1, -1))
    assert tree.within(0) == Tree((), ())
    assert Tree((), ()).depth == 0


@pytest.mark.parametrize(
    ("tokens", "parents", "message"),
    [
        ((1, 2), (-1,), "found 1 parents"),
        ((1, 2), (-1, 1), "node 1 has parent 1"),
        ((1,), (-2,), "parent -2"),
    ],
)
def test_nodes_that_form_no_tree(tokens, parents, message):
    with pytest.raises(ValueError, match=message):
        Tree(tokens, parents)
