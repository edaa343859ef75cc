"""Power of the t test over boots, and the smallest effect that it detects."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import optimize, special, stats

from truedraft.stats.figures import Floats

NODES = 200
"""Points at which a law of standard deviations is averaged; the error of a power stays below 0.001."""


def power_of(effect: float, error: float | Floats, df: float, alpha: float = 0.05) -> float:
    """Chance that a two-sided t test at `alpha` with `df` sees an `effect` whose estimate has `error`.

    The noncentral t law, as an average over what the test will estimate for `error`. Several errors, equally
    likely [n]: the power is averaged over them too.
    """
    errors = np.atleast_1d(np.asarray(error, dtype=np.float64))
    if not errors.all():
        return 1.0 if effect else alpha
    critical = float(stats.t.ppf(1 - alpha / 2, df)) * spread_law(df)
    shift = abs(effect) / errors[:, None]
    return float(np.mean(special.ndtr(shift - critical) + special.ndtr(-shift - critical)))


@lru_cache(maxsize=256)
def spread_law(df: float) -> Floats:
    """Quantiles of an estimated standard deviation with `df` / the true one, [NODES], equally likely."""
    grid = (np.arange(NODES) + 0.5) / NODES
    return np.asarray(np.sqrt(stats.chi2.ppf(grid, df) / df), dtype=np.float64)


def detectable(error: float, df: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest effect seen with `power` (minimum detectable effect), in the unit of `error`."""
    if error == 0:
        return 0.0

    def short(effect: float) -> float:
        return power_of(effect, 1.0, df, alpha) - power

    # At 1 degree of freedom and alpha 0.05 / 32 it is 500 standard errors.
    return error * float(optimize.brentq(short, 0.0, 1e6, xtol=1e-4))


def smallest(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest whole number in [low, high] that is enough, if more is always enough; else `None`."""
    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high
