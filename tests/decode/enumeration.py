"""Randomness that walks every path, for exact laws of programs that flip coins and draw tokens.

A program is run once per path: the answers of the last run are replayed up to the deepest decision that has
an outcome left, which is then taken. Impossible outcomes are never taken.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

ResultT = TypeVar("ResultT")
KeyT = TypeVar("KeyT", bound=Hashable)


class _Decision:
    def __init__(self, outcomes: tuple[tuple[int, float], ...]) -> None:
        self.outcomes = outcomes  # (answer, probability), all possible
        self.taken = 0


class Paths:
    """A `Chance` under which a program can be run once per path."""

    def __init__(self) -> None:
        self._trail: list[_Decision] = []
        self._depth = 0
        self.probability = 1.0

    def coin(self, probability: float) -> bool:
        assert 0 <= probability <= 1, probability
        return bool(self._decide(((1, probability), (0, 1 - probability))))

    def draw(self, weights: Tensor) -> int:
        assert weights.dtype == torch.float64, weights.dtype
        values = weights.tolist()
        total = math.fsum(values)
        assert 0 < total < math.inf, values
        assert min(values) >= 0, values
        return self._decide(tuple((index, value / total) for index, value in enumerate(values)))

    def _decide(self, outcomes: tuple[tuple[int, float], ...]) -> int:
        outcomes = tuple(outcome for outcome in outcomes if outcome[1] > 0)
        if self._depth == len(self._trail):
            self._trail.append(_Decision(outcomes))
        decision = self._trail[self._depth]
        assert decision.outcomes == outcomes, "the program did not repeat itself"
        self._depth += 1
        answer, probability = outcomes[decision.taken]
        self.probability *= probability
        return answer

    def rewind(self) -> bool:
        """Set out for the next path; false when all are walked."""
        assert self._depth == len(self._trail), "the program stopped before its script"
        while self._trail and self._trail[-1].taken + 1 == len(self._trail[-1].outcomes):
            self._trail.pop()
        if not self._trail:
            return False
        self._trail[-1].taken += 1
        self._depth, self.probability = 0, 1.0
        return True


def every_path(program: Callable[[Paths], ResultT]) -> Iterator[tuple[float, ResultT]]:
    """The probability and the result of every path of a program."""
    paths = Paths()
    while True:
        result = program(paths)
        yield paths.probability, result
        if not paths.rewind():
            return


def law_of(program: Callable[[Paths], KeyT]) -> dict[KeyT, float]:
    """The law of a program's result."""
    law: dict[KeyT, float] = defaultdict(float)
    for probability, result in every_path(program):
        law[result] += probability
    assert abs(math.fsum(law.values()) - 1) < 1e-12
    return dict(law)


def distance(one: dict[KeyT, float], other: dict[KeyT, float]) -> float:
    """The largest difference between two laws."""
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())
