"""Figures of acceptance as ratios of sums over prompts, boot by boot.

Every figure of a boot is `offset + Σ_p numerator[p] / Σ_p denominator[p]`, so that one set of formulas gives
intervals for all of them. The figures are those of `contract/_record.py`:

| figure | numerator | denominator | offset |
|---|---|---|---|
| `tau`, pooled | accepted drafts | rounds | 1 |
| `tau_macro`, every prompt counts once | accepted drafts / rounds of the prompt | 1 | 1 |
| `rate` | accepted drafts | proposed drafts | 0 |
| `survival` i | rounds that accepted at least i + 1 | rounds | 0 |
| `conditional` i | the same | rounds that proposed draft i and accepted all before it | 0 |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from truedraft.contract import InputError
from truedraft.stats.arms import Arm

Floats = NDArray[np.float64]

MOST_DRAFTS = 1024
"""Per round; drafters propose up to 16. Every one is a row of figures."""


@dataclass(frozen=True)
class Sums:
    """One figure's sums, float64 [boots, prompts]. `position` counts drafts from 0."""

    figure: str
    position: int | None
    numerator: Floats
    denominator: Floats
    offset: float = 0.0

    @property
    def per_boot(self) -> Floats:
        """The figure of each boot, [boots]; `nan` where a boot has nothing to divide by."""
        below = self.denominator.sum(1)
        above = self.numerator.sum(1)
        ratio = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
        return np.asarray(self.offset + ratio)

    @property
    def defined(self) -> bool:
        """Whether every boot has the figure."""
        return bool((self.denominator.sum(1) > 0).all())

    @property
    def residuals(self) -> Floats:
        """[boots, prompts]: by how much a prompt pulls its boot's figure, linearised; rows have mean 0.

        The delta method for a ratio of sums: (numerator - ratio x denominator) / mean denominator.
        """
        ratio = (self.per_boot - self.offset)[:, None]
        values: Floats = (self.numerator - ratio * self.denominator) / self.denominator.mean(1)[:, None]
        return values

    def only(self, prompts: NDArray[np.intp]) -> Sums:
        """The same figure over some of the prompts."""
        return replace(self, numerator=self.numerator[:, prompts], denominator=self.denominator[:, prompts])


def figures(arm: Arm, prompts: Sequence[str], width: int) -> dict[tuple[str, int | None], Sums]:
    """All figures of an arm over `prompts`, with `width` positions; keys are (figure, position).

    Every boot must have rounds of every prompt (`Arm.prompts_of_all_boots`).
    """
    shape = (len(arm.boots), len(prompts))
    entries = [
        (row * len(prompts) + column, proposed, accepted, rounds)
        for row, boot in enumerate(arm.boots)
        for column, prompt in enumerate(prompts)
        for (proposed, accepted), rounds in arm.cells[boot][prompt].table.items()
    ]
    cell, p, a, n = np.asarray(entries, dtype=np.float64).reshape(-1, 4).T
    where = cell.astype(np.intp)

    def summed(weights: Floats) -> Floats:
        flat = np.bincount(where, weights, minlength=shape[0] * shape[1])
        return np.asarray(flat, dtype=np.float64).reshape(shape)

    rounds, accepted, proposed = summed(n), summed(a * n), summed(p * n)
    found = [
        Sums("tau", None, accepted, rounds, 1.0),
        Sums("tau_macro", None, accepted / rounds, np.ones(shape), 1.0),
        Sums("rate", None, accepted, proposed),
    ]
    for i in range(width):
        reached, offered = summed(n * (a > i)), summed(n * ((p > i) & (a >= i)))
        found += [Sums("survival", i, reached, rounds), Sums("conditional", i, reached, offered)]
    return {(sums.figure, sums.position): sums for sums in found}


def width_of(arm: Arm) -> int:
    """The most drafts that any round proposed. Raises `InputError` beyond `MOST_DRAFTS`."""
    tables = (cell.table for cells in arm.cells.values() for cell in cells.values())
    width = max((proposed for table in tables for proposed, _ in table), default=0)
    if width > MOST_DRAFTS:
        raise InputError(f"{arm.name}: found {width} drafts in a round, expected at most {MOST_DRAFTS}")
    return width
