"""How many boots a comparison needs, from the spread of a pilot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from truedraft.contract import InputError
from truedraft.stats.arms import Arm
from truedraft.stats.components import components
from truedraft.stats.figures import Floats, Sums, figures
from truedraft.stats.power import power_of, smallest, spread_law

MOST_BOOTS = 1000


@dataclass(frozen=True)
class Spread:
    """What a pilot says of pooled τ. Variances are relative: of τ / τ.

    `boots`: variance of one boot's τ over `prompts` prompts, what cells add included, with `df` degrees of
    freedom. `cells`: variance that one prompt adds in one boot, of the mean over prompts times `prompts`.
    """

    tau: float
    boots: float
    cells: float
    prompts: int
    boot_count: int
    df: int

    @property
    def between(self) -> float:
        """Variance between boots alone: what no number of prompts takes away. Not below 0."""
        return max(self.boots - self.cells / self.prompts, 0.0)

    def errors(self, boots: int, prompts: int, effect: float = 0.0, *, exact: bool = False) -> Floats:
        """Standard errors of the difference of two arms with so many boots each, relative to τ of the first.

        What the pilot leaves open of the boots' variance: variance x df / chi-squared(df), equally likely
        quantiles. By the pivot, a power averaged over them holds on average over pilots, whatever the true
        variance. `exact`: the pilot's variance alone. The second arm is better by `effect` and spreads by the
        same share of its own τ.
        """
        of_boot = self.boots / (np.ones(1) if exact else spread_law(self.df) ** 2)
        # Prompts thin out what cells add, or all of it where it is less than cells alone should add.
        between = np.maximum(of_boot - self.cells / self.prompts, 0)
        variance = between + (of_boot - between) * self.prompts / prompts
        return np.asarray(np.sqrt(variance * (1 + (1 + effect) ** 2) / boots))

    def power(self, effect: float, boots: int, prompts: int, *, exact: bool = False) -> float:
        """Chance of seeing a relative `effect` at 5 %; `exact` as for `errors`."""
        return power_of(effect, self.errors(boots, prompts, effect, exact=exact), 2 * boots - 2)

    def detectable(self, boots: int, prompts: int, power: float = 0.8) -> float | None:
        """The smallest relative effect that is seen with `power`; `None` beyond 100 %."""

        def short(effect: float) -> float:
            return self.power(effect, boots, prompts) - power

        return None if short(1.0) < 0 else float(optimize.brentq(short, 0.0, 1.0, xtol=1e-5))

    def boots_needed(
        self, effect: float, prompts: int, power: float = 0.8, *, exact: bool = False
    ) -> int | None:
        """Boots per arm, at least 2; `None` beyond `MOST_BOOTS`. `exact` as for `power`."""
        return smallest(lambda n: self.power(effect, n, prompts, exact=exact) >= power, 2, MOST_BOOTS)


def spread_of(arms: Sequence[Arm]) -> Spread:
    """The spread of pooled τ within the arms of a pilot, on the prompts that all boots decoded.

    Raises `InputError` if no arm has two boots, if boots share no prompt or differ in K, or if one is there
    twice.
    """
    arms = [arm for arm in arms if len(arm.boots) > 1]
    if not arms:
        raise InputError("found one boot per arm, expected at least 2: only boots show how much boots differ")
    for arm in arms:
        _ = arm.K
        if (same := arm.same_counts()) and same[2]:
            raise InputError(
                f"{arm.name}: boots {same[0]} and {same[1]} are one run, expected different boots"
            )
        if arm.repeats_itself:
            raise InputError(
                f"{arm.name}: found {len(arm.boots)} boots that counted the same for every prompt, expected "
                "boots that differ: an engine that repeats itself exactly has no spread to plan from (greedy "
                "runs of truedraft do; give each --temperature and a --seed of its own)"
            )
    prompts = sorted(set.intersection(*(arm.prompts_of_all_boots() for arm in arms)))
    if not prompts:
        raise InputError("found no prompt that all boots of the pilot decoded")
    return spread_of_sums([figures(arm, prompts, 0)["tau", None] for arm in arms])


def spread_of_sums(arms: Sequence[Sums]) -> Spread:
    """The spread of one figure; `arms`: its sums per arm over the same prompts, at least two boots each."""
    freedom = sum(len(sums.numerator) - 1 for sums in arms)
    means, boots, cells = [], 0.0, 0.0
    for sums in arms:
        count, prompts = sums.numerator.shape
        found = components(sums.per_boot, sums.residuals)
        mean, share = float(sums.per_boot.mean()), (count - 1) / freedom
        means.append(mean)
        boots += share * found.boots * count / mean**2
        cells += share * found.cells * count * prompts / mean**2
    total = sum(len(sums.numerator) for sums in arms)
    return Spread(float(np.mean(means)), boots, cells, prompts, total, freedom)
