"""Two arms with boots and prompts both as random units: the two-way ("pigeonhole") bootstrap.

Owen, "The pigeonhole bootstrap" (Annals of Applied Statistics 1, 2007): draw boots with replacement, draw
prompts with replacement, keep every cell where a drawn boot meets a drawn prompt. Its variance counts what is
peculiar to a cell three times (theorem 3), twice too often; that excess is known and is taken out of
the width. Percentiles of few boots are too narrow; they are expanded as in Hesterberg, "What Teachers Should
Know About the Bootstrap" (2015), section 3.4.1, to what t has there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from truedraft.stats.components import components
from truedraft.stats.contrast import Contrast, Interval, independent, paired
from truedraft.stats.figures import Floats, Sums

RESAMPLES = 4000
CHUNK = 4_000_000
"""Prompt weights that are held at a time."""


@dataclass(frozen=True)
class Resampled:
    """Figures `a` and `b` of the arms and their resamples `drawn_a`, `drawn_b`, [RESAMPLES] each.

    `width`: by how much the resamples' standard deviation must be changed. `expansion`: by how much more
    percentiles must, for the few boots that it was estimated from (`df` degrees of freedom).
    """

    a: float
    b: float
    drawn_a: Floats
    drawn_b: Floats
    width: float
    expansion: float
    df: float

    def error(self, ratio: float = 1.0) -> float:
        """Standard error of b - ratio x a."""
        return self.width * float((self.drawn_b - ratio * self.drawn_a).std(ddof=1))

    @property
    def difference(self) -> float:
        """The difference b - a."""
        return self.b - self.a

    @property
    def ratio(self) -> float | None:
        """The ratio b / a; `None` if a is 0."""
        return self.b / self.a if self.a else None

    @property
    def p(self) -> float:
        """Two-sided p of "no difference": twice the share of resamples on the other side of 0."""
        return min(1.0, 2 * min(self._share_below(1.0), self._share_above(1.0)))

    def p_beyond(self, margin: float) -> float:
        """Chance level p of "b differs from a by `margin` x a or more": two one-sided tests."""
        return max(self._share_below(1 - margin), self._share_above(1 + margin))

    def interval(self, level: float = 0.95) -> Interval:
        """Of the difference."""
        low, high = np.quantile(self._spread(1.0), [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def ratio_interval(self, level: float = 0.95) -> Interval | None:
        """Of the ratio, spread on the log scale; `None` if a or b may be 0."""
        if min(self.a, self.b, self.drawn_a.min(), self.drawn_b.min()) <= 0:
            return None
        center = math.log(self.b / self.a)
        logs = center + self.width * self.expansion * (np.log(self.drawn_b / self.drawn_a) - center)
        low, high = np.exp(np.quantile(logs, [(1 - level) / 2, (1 + level) / 2]))
        return float(low), float(high)

    def _spread(self, ratio: float) -> Floats:
        center = self.b - ratio * self.a
        return center + self.width * self.expansion * (self.drawn_b - ratio * self.drawn_a - center)

    def _share_below(self, ratio: float) -> float:
        return (1 + int((self._spread(ratio) <= 0).sum())) / (1 + len(self.drawn_a))

    def _share_above(self, ratio: float) -> float:
        return (1 + int((self._spread(ratio) >= 0).sum())) / (1 + len(self.drawn_a))


def pigeonhole(
    arms: Sequence[tuple[Sums, Sums]], *, pairs: bool, resamples: int = RESAMPLES, seed: int = 0
) -> list[Resampled | Contrast]:
    """Resamples of figures of two arms; all of `arms` have the same boots and the same prompts.

    `pairs`: boot i of both arms ran side by side and they are drawn together. The same seed draws the same.
    A figure so rare that a tenth of the resamples lack it keeps t over boots (`Contrast`).
    """
    boots_a, prompts = arms[0][0].numerator.shape
    boots_b = arms[0][1].numerator.shape[0]
    rng = np.random.default_rng(seed)
    drawn: list[list[tuple[Floats, Floats]]] = [[] for _ in arms]
    while resamples > 0:
        size = min(resamples, max(1, CHUNK // prompts))
        resamples -= size
        weights = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size).astype(np.float64)
        of_a = rng.integers(boots_a, size=(size, boots_a))
        of_b = of_a if pairs else rng.integers(boots_b, size=(size, boots_b))
        for (a, b), out in zip(arms, drawn, strict=True):
            out.append((_means(a, weights, of_a), _means(b, weights, of_b)))
    return [
        _resampled(a, b, np.concatenate([x for x, _ in out]), np.concatenate([y for _, y in out]), pairs)
        for (a, b), out in zip(arms, drawn, strict=True)
    ]


def _means(sums: Sums, weights: Floats, boots: np.typing.NDArray[np.int64]) -> Floats:
    """[resamples]: the arm's figure over the drawn prompts and boots; `nan` where it is not defined."""
    below = weights @ sums.denominator.T
    above = weights @ sums.numerator.T
    figures = sums.offset + np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return np.asarray(np.take_along_axis(figures, boots, axis=1).mean(1))


def _resampled(a: Sums, b: Sums, drawn_a: Floats, drawn_b: Floats, pairs: bool) -> Resampled | Contrast:
    defined = np.isfinite(drawn_a) & np.isfinite(drawn_b)
    test = (paired if pairs else independent)(a.per_boot, b.per_boot)
    if defined.mean() < 0.9:
        return test
    drawn_a, drawn_b = drawn_a[defined], drawn_b[defined]
    excess = 2 * _cells(a, b, pairs)
    variance = float((drawn_b - drawn_a).var())
    kept = max(1 - excess / variance, 1 / 3) if variance > 0 else 1.0
    fewest = min(len(a.per_boot), len(b.per_boot))
    width = math.sqrt(kept * fewest / (fewest - 1))
    expansion = float(stats.t.ppf(0.975, test.df) / stats.norm.ppf(0.975))
    return Resampled(test.a, test.b, drawn_a, drawn_b, width, expansion, test.df)


def _cells(a: Sums, b: Sums, pairs: bool) -> float:
    """Variance of the difference that is peculiar to cells."""
    if pairs:
        return components(b.per_boot - a.per_boot, b.residuals - a.residuals).cells
    return sum(components(sums.per_boot, sums.residuals).cells for sums in (a, b))
