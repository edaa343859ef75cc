"""One step of a drafter, an engine's against ours, and how near they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from truedraft.trace.history import History, Turn
from truedraft.trace.pieces import Pieces, Twist


@dataclass(frozen=True)
class Compared:
    """Rows of one part (`layer 1`) as the engine has them and as they should be, [n, …].

    Whole numbers and truth values must be equal; of real ones, the relative error of a row counts.
    """

    part: str
    found: Tensor
    expected: Tensor

    def errors(self) -> Tensor:
        """Relative error of each row, [n]; infinite for other shapes and for what is not finite."""
        if self.found.shape != self.expected.shape:
            return torch.full((max(len(self.found), 1),), torch.inf)
        rows = len(self.found)
        if not rows:
            return torch.zeros(0, dtype=torch.float64)
        found, expected = self.found.reshape(rows, -1).double(), self.expected.reshape(rows, -1).double()
        if not self.expected.is_floating_point():
            return (found != expected).any(1).double()
        size = expected.norm(dim=1).clamp_min(1e-9)
        return torch.nan_to_num((found - expected).norm(dim=1) / size, nan=torch.inf, posinf=torch.inf)


Compare: TypeAlias = "Callable[[History, Turn, Pieces, Twist], Iterator[Compared]]"
Guesses: TypeAlias = "Callable[[Pieces], Sequence[tuple[str, Twist]]]"


def no_guesses(_pieces: Pieces) -> Sequence[tuple[str, Twist]]:
    """For steps that only axes can explain."""
    return ()


@dataclass(frozen=True)
class Stage:
    """A step. `compare`: its parts in one turn, fed with the engine's own inputs of the step.

    `axes`: what may explain a difference; `guesses`: what else may, in words. `sharded`: whether
    tensor-parallel ranks hold parts of it.
    """

    name: str
    compare: Compare
    axes: tuple[str, ...] = ()
    guesses: Guesses = no_guesses
    sharded: bool = False


SHOWN = 3
"""Candidates that an outcome names."""


@dataclass(frozen=True)
class Tried:
    """A candidate for a part that differs. `error`: the largest row's relative error under it."""

    what: str
    error: float


@dataclass(frozen=True)
class Outcome:
    """A part of a step over all turns.

    `rows`: compared ones; `unequal`: rows whose error is too large; `worst`: the largest error. `tried`:
    candidates, the nearest first; `explained`: those under which all rows are equal. `note`: found and
    expected in words, where there is no candidate to name.
    """

    stage: str
    part: str
    rows: int
    unequal: int
    worst: float
    tried: tuple[Tried, ...] = ()
    explained: tuple[str, ...] = ()
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether any row does."""
        return self.unequal > 0

    @property
    def where(self) -> str:
        """Step and part in words."""
        return f"{self.stage}, {self.part}" if self.part else self.stage
