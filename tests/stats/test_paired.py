"""Estimates against scipy and by hand; coverage and false alarms by simulation with fixed seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from truedraft.stats import Estimate, estimate, spent

SAMPLES = [
    [0.1, 0.4, -0.2],
    [3.0, 3.5],
    [-1.0, -1.1, -0.9, -1.3, -0.7, -1.0],
    list(np.random.default_rng(3).normal(0.2, 2.0, 24)),
    list(np.random.default_rng(4).exponential(1.0, 9)),
]


@pytest.mark.parametrize("values", SAMPLES)
def test_estimate_is_scipy_s_t_test(values: list[float]) -> None:
    found = estimate(values)
    two_sided = stats.ttest_1samp(values, 0)
    assert found.units == len(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.error == pytest.approx(stats.sem(values))
    assert found.p_above == pytest.approx(stats.ttest_1samp(values, 0, alternative="greater").pvalue)
    assert found.p_below == pytest.approx(stats.ttest_1samp(values, 0, alternative="less").pvalue)
    for level in (0.95, 0.5, 0.999):
        wanted = two_sided.confidence_interval(level)
        assert found.interval(level) == pytest.approx((wanted.low, wanted.high))


def test_by_hand() -> None:
    """Mean 2, standard deviation 1, three units; t(2 df) at 97.5 % is 4.302653."""
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.error) == (2, pytest.approx(1 / math.sqrt(3)))
    assert found.interval() == pytest.approx((2 - 2.484138, 2 + 2.484138), abs=1e-5)
    # two units, 1 df: the Cauchy law; t = 2, and 1/2 - atan(2) / pi
    assert estimate([1.0, 3.0]).p_above == pytest.approx(0.5 - math.atan(2) / math.pi)
    assert estimate([1.0, 3.0]).p_below == pytest.approx(0.5 + math.atan(2) / math.pi)


def test_a_single_unit_says_nothing() -> None:
    found = estimate([4.0])
    assert found.mean == 4
    assert math.isnan(found.error)
    assert found.interval() is None
    assert (found.p_above, found.p_below, found.units_needed(0.05)) == (1.0, 1.0, None)


@pytest.mark.parametrize(
    ("values", "above", "below"), [([0.0] * 4, 1, 1), ([0.5] * 4, 0, 1), ([-0.5] * 4, 1, 0)]
)
def test_units_that_all_agree(values: list[float], above: float, below: float) -> None:
    found = estimate(values)
    assert (found.p_above, found.p_below) == (above, below)
    assert found.interval() == (values[0], values[0])


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf, 0.0], [[1.0, 2.0]]])
def test_values_that_are_no_sample(values: list[float]) -> None:
    with pytest.raises(ValueError, match="expected one finite value per prompt"):
        estimate(values)


@pytest.mark.parametrize("p", [0.05, 0.001, 1e-5])
def test_units_needed_reach_the_level_and_a_tenth_fewer_do_not(p: float) -> None:
    found = Estimate(0.3, 0.25, 8)
    needed = found.units_needed(p)
    assert needed is not None
    spread = 0.25 * math.sqrt(8)

    def reached(units: int) -> float:
        return float(stats.t.sf(0.3 / (spread / math.sqrt(units)), units - 1))

    assert reached(needed) <= p < reached(int(0.9 * needed))
    assert Estimate(-0.3, 0.25, 8).units_needed(p) == needed
    assert Estimate(0.0, 0.25, 8).units_needed(p) is None
    assert Estimate(1e-9, 0.25, 8).units_needed(p) is None  # not in a hundred thousand


@pytest.mark.parametrize("units", [4, 16])
def test_the_interval_covers_the_truth_as_often_as_it_says(units: int) -> None:
    rng = np.random.default_rng(11)
    truth, covered = 0.7, 0
    for values in rng.normal(truth, 1.9, (2000, units)):
        interval = estimate(values).interval()
        assert interval is not None
        covered += interval[0] <= truth <= interval[1]
    assert 0.93 <= covered / 2000 <= 0.97


# -------------------------------------------------------------------------- equal arms, false alarms

PROMPTS, STEPS, CORRELATION = 24, 32, 0.1


def equal_arms(rng: np.random.Generator, prompts: int) -> np.ndarray:
    """Paired differences [prompts, STEPS] of two arms that are equally good; steps of a prompt correlate."""
    shared = rng.normal(0, math.sqrt(CORRELATION), (prompts, 1))
    return shared + rng.normal(0, math.sqrt(1 - CORRELATION), (prompts, STEPS))


def test_steps_counted_as_independent_give_false_alarms_in_a_third_of_all_comparisons() -> None:
    """The claim of `stats.paired`; the t test over prompts keeps its 5 % on the same numbers."""
    rng = np.random.default_rng(5)
    by_step = by_prompt = 0
    for _ in range(2000):
        steps = equal_arms(rng, PROMPTS)
        by_step += excludes_zero(estimate(steps.ravel()))
        by_prompt += excludes_zero(estimate(steps.mean(1)))
    assert by_step / 2000 == pytest.approx(1 / 3, abs=0.03)
    assert by_prompt / 2000 == pytest.approx(0.05, abs=0.015)


def excludes_zero(found: Estimate) -> bool:
    interval = found.interval()
    assert interval is not None
    return not interval[0] <= 0 <= interval[1]


def test_spending_sums_to_alpha_and_never_more() -> None:
    shares = [spent(0.05, look) for look in range(1, 2001)]
    assert shares[:3] == pytest.approx([0.025, 0.05 / 6, 0.05 / 12])
    assert sum(shares) == pytest.approx(0.05 * (1 - 1 / 2001))
    for look in (0, -1):
        with pytest.raises(ValueError, match="looks count from 1"):
            spent(0.05, look)


def test_many_looks_with_spending_keep_the_false_alarms_and_without_do_not() -> None:
    """Both directions tested at each of five looks at a growing sample, stopping at the first alarm."""
    rng = np.random.default_rng(6)
    kept = naive = 0
    for _ in range(2000):
        means = equal_arms(rng, 128).mean(1)
        found = [estimate(means[:count]) for count in (8, 16, 32, 64, 128)]
        smallest = [one.p_above if one.mean > 0 else one.p_below for one in found]
        kept += any(p < spent(0.05, look) / 2 for look, p in enumerate(smallest, 1))
        naive += any(p < 0.05 / 2 for p in smallest)
    assert kept / 2000 <= 0.05
    assert naive / 2000 > 0.10
