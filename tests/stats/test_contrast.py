"""Two arms over boots: scipy's tests as oracles, Fieller against the test it inverts, cases by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from truedraft.stats.contrast import Contrast, independent, paired
from truedraft.stats.holm import holm

RNG = np.random.default_rng(5)
ARMS = [(RNG.normal(3, 0.1, n), RNG.normal(3.1, 0.2, m)) for n, m in ((2, 2), (3, 3), (5, 5), (8, 8), (6, 9))]
figures = st.lists(st.floats(1, 10), min_size=2, max_size=8)


@pytest.mark.parametrize(("a", "b"), ARMS)
def test_independent_boots_are_scipys_t_test(a: np.ndarray, b: np.ndarray) -> None:
    found = independent(a, b)
    wanted = stats.ttest_ind(b, a, equal_var=len(a) < 5)
    assert found.difference == pytest.approx(b.mean() - a.mean())
    assert (found.p, found.df) == (pytest.approx(wanted.pvalue), pytest.approx(wanted.df))
    for level in (0.9, 0.95):
        ends = wanted.confidence_interval(level)
        assert found.interval(level) == pytest.approx((ends.low, ends.high))


def test_unequal_few_boots_take_the_larger_error_and_welchs_freedom() -> None:
    a, b = np.array([1.0, 3.0]), np.array([5.0, 5.1, 5.2, 5.3])
    welch, student = stats.ttest_ind(b, a, equal_var=False), stats.ttest_ind(b, a)
    assert independent(a, b).df == pytest.approx(welch.df)
    error = (b.mean() - a.mean()) / min(abs(welch.statistic), abs(student.statistic))
    assert independent(a, b).error() == pytest.approx(error)
    assert independent(b, a).error() == pytest.approx(error)


@pytest.mark.parametrize(("a", "b"), ARMS[:4])
def test_paired_boots_are_scipys_paired_t_test(a: np.ndarray, b: np.ndarray) -> None:
    found, wanted = paired(a, b), stats.ttest_rel(b, a)
    assert (found.p, found.df) == (pytest.approx(wanted.pvalue), len(a) - 1)
    ends = wanted.confidence_interval(0.95)
    assert found.interval() == pytest.approx((ends.low, ends.high))


def test_by_hand() -> None:
    """Means 2 and 5, both variances 2 over 2 boots: error sqrt(2), t(2 df) at 97.5 % is 4.302653."""
    found = independent([1, 3], [4, 6])
    assert (found.a, found.b, found.df) == (2, 5, 2)
    assert found.error() == pytest.approx(math.sqrt(2))
    assert found.interval() == pytest.approx((3 - 6.084870, 3 + 6.084870))
    assert found.p == pytest.approx(0.1679497)  # t = 2.1213 with 2 df


@pytest.mark.parametrize(("a", "b"), ARMS)
@pytest.mark.parametrize("method", [independent, paired])
def test_fieller_holds_the_ratios_that_are_not_rejected(a: np.ndarray, b: np.ndarray, method: object) -> None:
    found: Contrast = method(a, b[: len(a)])  # type: ignore[operator]
    between = found.ratio_interval()
    critical = stats.t.ppf(0.975, found.df)
    if between is None:
        assert abs(found.a) <= critical * math.sqrt(found.variance_a)
        return

    def beyond(ratio: float) -> float:
        return abs(found.b - ratio * found.a) - critical * found.error(ratio)

    low = optimize.brentq(beyond, found.ratio - 30, found.ratio)
    high = optimize.brentq(beyond, found.ratio, found.ratio + 30)
    assert between == pytest.approx((low, high))


def test_a_ratio_without_bounds_is_none() -> None:
    assert independent([0.0, 0.1], [1.0, 1.2]).ratio_interval() is None
    assert independent([0.0, 0.0], [1.0, 1.2]).ratio is None


@pytest.mark.parametrize(("a", "b"), ARMS[:2])
def test_equivalence_is_two_one_sided_tests(a: np.ndarray, b: np.ndarray) -> None:
    """Against scipy on the scaled figures; Student's rule, which is that of equal small numbers."""
    low = stats.ttest_ind(b, 0.9 * a, alternative="greater").pvalue
    high = stats.ttest_ind(b, 1.1 * a, alternative="less").pvalue
    assert independent(a, b).p_beyond(0.1) == pytest.approx(max(low, high))


@given(figures, figures)
def test_the_ratio_excludes_1_where_the_difference_excludes_0(a: list[float], b: list[float]) -> None:
    found = independent(a, b)
    between, (low, high) = found.ratio_interval(), found.interval()
    if between is not None and min(abs(low), abs(high)) > 1e-9:
        assert (between[0] <= 1 <= between[1]) == (low <= 0 <= high)


@given(figures, figures)
def test_swapping_arms_turns_everything_around(a: list[float], b: list[float]) -> None:
    one, two = independent(a, b), independent(b, a)
    assert one.difference == -two.difference
    assert one.p == pytest.approx(two.p)
    assert one.interval() == pytest.approx(tuple(-end for end in reversed(two.interval())))
    if (forth := one.ratio_interval()) and (back := two.ratio_interval()) and back[0] > 0:
        assert forth == pytest.approx((1 / back[1], 1 / back[0]), rel=1e-6)


def test_boots_that_agree_to_the_last_digit() -> None:
    assert independent([3, 3], [3, 3]).p == 1
    assert independent([3, 3], [4, 4]).p == 0
    assert paired([3, 4], [4, 5]).p == 0
    assert independent([3, 3], [3, 3]).p_beyond(0.01) == 0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=6), st.floats(0.001, 0.5))
def test_holm_rejects_as_the_sequential_procedure(values: list[float], alpha: float) -> None:
    rejected: set[int] = set()
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        if values[i] * (len(values) - rank) > alpha:
            break
        rejected.add(i)
    adjusted = holm(values)
    assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected
    assert all(p >= value for p, value in zip(adjusted, values, strict=True))


@pytest.mark.parametrize(("boots", "welch"), [(2, 0.024), (3, 0.035)])
def test_why_few_boots_do_not_take_welchs_freedom(boots: int, welch: float) -> None:
    """At 5 % it gives false alarms in 2.4 and 3.5 % of comparisons of equal arms, Student's in 5 %."""
    a, b = np.random.default_rng(1).normal(size=(2, 40000, boots))
    for equal, share in ((False, welch), (True, 0.05)):
        found = stats.ttest_ind(a, b, axis=1, equal_var=equal).pvalue
        assert np.mean(found < 0.05) == pytest.approx(share, abs=0.005)
