"""Power and plans: scipy's noncentral t, simulated tests and pilots."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from arm_records import arm_records, record
from truedraft.contract import InputError
from truedraft.stats import Arm, Spread, spread_of
from truedraft.stats.power import detectable, power_of, smallest, spread_law


@pytest.mark.parametrize("df", [2, 4, 8, 14, 38])
@pytest.mark.parametrize("effect", [0.0, 0.5, 2.0, 3.5, 6.0])
def test_power_is_that_of_the_noncentral_t(df: int, effect: float) -> None:
    critical = stats.t.ppf(0.975, df)
    wanted = stats.nct.sf(critical, df, effect) + stats.nct.cdf(-critical, df, effect)
    assert power_of(effect, 1.0, df) == pytest.approx(wanted, abs=2e-3)


def test_power_by_simulation() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, (20000, 3)), rng.normal(2.5, 1, (20000, 3))
    seen = np.mean(stats.ttest_ind(a, b, axis=1).pvalue < 0.05)
    assert power_of(2.5, np.sqrt(2 / 3), 4) == pytest.approx(seen, abs=0.01)


@pytest.mark.parametrize("df", [1, 2, 4, 14])
def test_the_detectable_effect_has_the_power(df: int) -> None:
    for alpha in (0.05, 0.05 / 8):
        found = detectable(0.3, df, 0.8, alpha)
        assert power_of(found, 0.3, df, alpha) == pytest.approx(0.8, abs=1e-3)
    assert detectable(0.0, df) == 0


def test_the_detectable_effects_of_the_design() -> None:
    """`measurement.md` has 8.1, 4.6, 3.1 and 2.3 %, from quantiles added up."""
    errors = {2: 1.5, 3: 1.2, 5: 1.0, 8: 0.8}
    found = [detectable(error, 2 * n - 2) for n, error in errors.items()]
    assert found == pytest.approx([8.1, 4.6, 3.1, 2.3], abs=0.45)


def test_no_spread() -> None:
    assert (power_of(0.1, 0.0, 4), power_of(0.0, 0.0, 4)) == (1.0, 0.05)


def test_smallest() -> None:
    for wanted in (2, 3, 77, 1000):
        assert smallest(lambda n, wanted=wanted: n >= wanted, 2, 1000) == wanted
    assert smallest(lambda n: False, 2, 1000) is None


def test_the_law_of_an_estimated_deviation() -> None:
    assert np.mean(spread_law(4) ** 2) == pytest.approx(1, abs=0.02)
    assert np.quantile(spread_law(4), 0.5) == pytest.approx(np.sqrt(stats.chi2.ppf(0.5, 4) / 4), rel=0.01)


SPREAD = Spread(tau=3.2, boots=0.015**2, cells=160 * 0.009**2, prompts=160, boot_count=5, df=4)


def test_more_boots_prompts_and_effect_help() -> None:
    by_boots = [SPREAD.power(0.03, n, 160) for n in (2, 3, 5, 8, 20)]
    by_prompts = [SPREAD.power(0.03, 5, n) for n in (40, 160, 640, 10**6)]
    by_effect = [SPREAD.power(effect, 5, 160) for effect in (0.01, 0.02, 0.04)]
    for rising in (by_boots, by_prompts, by_effect):
        assert rising == sorted(rising)
    assert SPREAD.power(0.03, 5, 160, exact=True) > SPREAD.power(0.03, 5, 160)


def test_prompts_do_not_help_beyond_the_boots() -> None:
    """Boots alone: 1.2 % of τ, two arms of 5 differ by 0.76 % (sd) however many prompts there are."""
    assert SPREAD.between == pytest.approx(0.012**2)
    assert SPREAD.errors(5, 10**9, exact=True) == pytest.approx([np.sqrt(2 / 5) * 0.012], rel=1e-3)


def test_boots_needed_is_the_first_that_suffices() -> None:
    need = SPREAD.boots_needed(0.03, 160)
    assert need is not None
    assert SPREAD.power(0.03, need, 160) >= 0.8 > SPREAD.power(0.03, need - 1, 160)
    assert SPREAD.detectable(need, 160) == pytest.approx(0.03, rel=0.15)
    assert SPREAD.boots_needed(0.0001, 160) is None
    noisy = Spread(3.2, 1.0, 0.0, 160, 2, 1)
    assert noisy.detectable(2, 160) is None


def test_the_promise_holds_on_average_over_pilots() -> None:
    """Pilots of 3 boots of a known spread: their plans reach 80 %, much less if taken as exact."""
    drawn = stats.chi2.ppf((np.arange(25) + 0.5) / 25, 2) / 2
    truth = Spread(3.2, 0.015**2, 0.0, 160, 10**6, 10**6)
    reached = {False: [], True: []}
    for variance in truth.boots * drawn:
        pilot = Spread(3.2, variance, 0.0, 160, 3, 2)
        for exact, out in reached.items():
            out.append(truth.power(0.015, pilot.boots_needed(0.015, 160, exact=exact) or 1000, 160))
    assert np.mean(reached[False]) == pytest.approx(0.8, abs=0.05)
    assert np.mean(reached[True]) < 0.75


def test_the_spread_of_a_pilot() -> None:
    """Arms are pooled around their own τ: shifting one changes its relative variance only by its τ."""
    records = arm_records(3, boots=4)
    one = spread_of([Arm("a", records)])
    both = spread_of([Arm("a", records), Arm("b", records)])
    taus = [1 + sum(sum(r.accepted) for r in records if r.boot == f"b{i}") / 180 for i in range(4)]
    assert one.tau == pytest.approx(np.mean(taus))
    assert one.boots == pytest.approx(np.var(taus, ddof=1) / np.mean(taus) ** 2)
    assert (one.df, both.df, both.boot_count) == (3, 6, 8)
    assert (both.boots, both.cells) == pytest.approx((one.boots, one.cells))


def test_a_pilot_that_shows_nothing() -> None:
    with pytest.raises(InputError, match="only boots show"):
        spread_of([Arm("a", arm_records(3, boots=1)), Arm("b", arm_records(4, boots=1))])
    with pytest.raises(InputError, match="no prompt that all"):
        spread_of([Arm("a", [record("b0", "p"), record("b1", "q")])])
    with pytest.raises(InputError, match="are one run"):
        spread_of([Arm("a", [record("b0", started=5.0), record("b1", started=5.0)])])
