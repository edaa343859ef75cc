"""What a comparison says: rows of figures, each with its test and verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from truedraft.stats.arms import Arm
from truedraft.stats.components import ArmEstimate
from truedraft.stats.contrast import Contrast
from truedraft.stats.design import Design
from truedraft.stats.pigeonhole import Resampled
from truedraft.stats.power import detectable

ALPHA = 0.05

Verdict = Literal["estimate only", "no difference shown", "higher", "lower"]


@dataclass(frozen=True)
class Row:
    """One figure of both arms. `category` is `None` over all prompts.

    `test` is `None` for a single boot in an arm. `p` is adjusted (Holm) for the `family` of rows that are
    read together: the positions of a figure, or a figure's categories. `beyond` is the p of TOST, adjusted
    likewise; `margin` relative to A.
    """

    figure: str
    position: int | None
    category: str | None
    prompts: int
    a: ArmEstimate
    b: ArmEstimate
    test: Contrast | Resampled | None
    p: float = 1.0
    family: int = 1
    margin: float | None = None
    beyond: float = 1.0

    @property
    def verdict(self) -> Verdict:
        """What may be said of B against A."""
        if self.test is None:
            return "estimate only"
        if self.p >= ALPHA or self.test.difference == 0:
            return "no difference shown"
        return "higher" if self.test.difference > 0 else "lower"

    @property
    def equivalent(self) -> bool | None:
        """Whether B was shown to be within the margin; `None` if nobody asked or nothing can be said."""
        return None if self.margin is None or self.test is None else self.beyond < ALPHA

    @property
    def detectable(self) -> float | None:
        """The difference that this design would see with power 80 %, at the family's level / its size."""
        return None if self.test is None else detectable(self.test.error(), self.test.df, 0.8, self._level)

    @property
    def _level(self) -> float:
        return ALPHA / self.family


@dataclass(frozen=True)
class Comparison:
    """Arms `a` and `b`; rows of all categories, then of all prompts.

    `same_text`: share of identical outputs across the arms, between boots of a, between boots of b.
    `boot_sd`: standard deviation of pooled τ from boot to boot / τ; `None` for one boot. `settings`: those
    that differ.
    """

    a: Arm
    b: Arm
    design: Design
    rows: tuple[Row, ...]
    same_text: tuple[float | None, float | None, float | None]
    boot_sd: tuple[float | None, float | None]
    settings: dict[str, tuple[str, str]]
    warnings: tuple[str, ...]

    def row(self, figure: str, position: int | None = None, category: str | None = None) -> Row:
        """The row of a figure. Raises `KeyError` if it is not compared."""
        for row in self.rows:
            if (row.figure, row.position, row.category) == (figure, position, category):
                return row
        raise KeyError((figure, position, category))

    @property
    def judged(self) -> tuple[Row, ...]:
        """The rows that decide: pooled τ over all prompts and per category."""
        return tuple(row for row in self.rows if row.figure == "tau")
