"""Two arms with boots as the random unit and the prompts held fixed: t on boot-level figures.

Both arms decode the same prompts, so a prompt's difficulty is in every boot's figure alike and leaves the
difference. What is left varies from boot to boot, and only boots can show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from truedraft.stats.figures import Floats

FEW_BOOTS = 5
"""From so many boots in both arms on, boots can tell whether the arms spread alike (see `independent`)."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Contrast:
    """Figures `a` and `b` of the arms, the covariance of these two means, and degrees of freedom.

    Differences are b - a, ratios b / a.
    """

    a: float
    b: float
    variance_a: float
    variance_b: float
    covariance: float
    df: float

    def error(self, ratio: float = 1.0) -> float:
        """Standard error of b - ratio x a."""
        square = self.variance_b + ratio * ratio * self.variance_a - 2 * ratio * self.covariance
        return math.sqrt(max(square, 0.0))

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
        """Two-sided p of "no difference"."""
        return 2 * _tail(abs(self.difference), self.error(), self.df)

    def p_beyond(self, margin: float) -> float:
        """Chance level p of "b differs from a by `margin` x a or more": TOST.

        Two one-sided tests, Schuirmann (1987).
        """
        low, high = 1 - margin, 1 + margin
        above = _tail(self.b - low * self.a, self.error(low), self.df)
        below = _tail(high * self.a - self.b, self.error(high), self.df)
        return max(above, below)

    def interval(self, level: float = 0.95) -> Interval:
        """Of the difference."""
        reach = float(stats.t.ppf((1 + level) / 2, self.df)) * self.error()
        return self.difference - reach, self.difference + reach

    def ratio_interval(self, level: float = 0.95) -> Interval | None:
        """Of the ratio; `None` if a may be 0, so that no ratio is excluded.

        Fieller (1954): all ratios r for which "b = r a" is not rejected, so that it holds 1 exactly where
        `interval` holds 0.
        """
        t_squared = float(stats.t.ppf((1 + level) / 2, self.df)) ** 2
        square = self.a**2 - t_squared * self.variance_a
        middle = self.a * self.b - t_squared * self.covariance
        rest = self.b**2 - t_squared * self.variance_b
        if square <= 0:
            return None
        root = math.sqrt(max(middle**2 - square * rest, 0.0))
        return (middle - root) / square, (middle + root) / square


def _tail(distance: float, error: float, df: float) -> float:
    """One-sided p of a distance from what is tested. All boots agree: it is there, or it is not."""
    if error == 0:
        return 0.0 if distance > 0 else 0.5 if distance == 0 else 1.0
    return float(stats.t.sf(distance / error, df))


def independent(a: Floats | Sequence[float], b: Floats | Sequence[float]) -> Contrast:
    """Boots of the arms have nothing in common. `a`, `b`: one figure per boot, at least two each.

    Welch's t from `FEW_BOOTS` boots on. Below, spread and degrees of freedom of each arm are too uncertain
    for it: at 2 boots its alarms are half of what they should be, at 2 against 8 twice. Equal numbers then
    take n_a + n_b - 2 degrees of freedom (Student's t, the same standard error), unequal ones the larger of
    Student's and Welch's standard error. What each rule does is in `docs/statistics.md`.
    """
    a, b = np.asarray(a), np.asarray(b)
    n, m = len(a), len(b)
    spread_a, spread_b = float(a.var(ddof=1)), float(b.var(ddof=1))
    of_a, of_b = spread_a / n, spread_b / m
    total, df = of_a + of_b, float(n + m - 2)
    few = min(n, m) < FEW_BOOTS
    if total > 0 and not (few and n == m):
        df = total**2 / (of_a**2 / (n - 1) + of_b**2 / (m - 1))
    if total > 0 and few:
        pooled = ((n - 1) * spread_a + (m - 1) * spread_b) / (n + m - 2) * (1 / n + 1 / m)
        larger = max(pooled / total, 1.0) if n != m else 1.0
        of_a, of_b = of_a * larger, of_b * larger
    return Contrast(float(a.mean()), float(b.mean()), of_a, of_b, 0.0, df)


def paired(a: Floats | Sequence[float], b: Floats | Sequence[float]) -> Contrast:
    """Boot i of `a` and boot i of `b` ran side by side: t on their differences, n - 1 degrees of freedom."""
    a, b = np.asarray(a), np.asarray(b)
    (of_a, both), (_, of_b) = (np.cov(a, b) / len(a)).tolist()
    return Contrast(float(a.mean()), float(b.mean()), of_a, of_b, both, len(a) - 1.0)
