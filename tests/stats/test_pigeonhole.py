"""The two-way bootstrap: a slow one with loops, and Owen's formula for its variance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from truedraft.stats.components import components
from truedraft.stats.contrast import Contrast, independent
from truedraft.stats.figures import Sums
from truedraft.stats.pigeonhole import Resampled, pigeonhole


def arm(seed: int, boots: int = 12, prompts: int = 30, shift: float = 0.0) -> Sums:
    rng = np.random.default_rng(seed)
    rounds = np.broadcast_to(
        np.random.default_rng(1).integers(20, 60, prompts).astype(float), (boots, prompts)
    )
    prompt = np.random.default_rng(2).normal(2, 0.5, prompts)
    values = shift + prompt + rng.normal(0, 0.05, (boots, 1)) + rng.normal(0, 0.3, (boots, prompts))
    return Sums("tau", None, values * rounds, rounds, 1.0)


def brute(a: Sums, b: Sums, count: int, *, pairs: bool) -> np.ndarray:
    """Differences of resamples, cell by cell."""
    rng = np.random.default_rng(9)
    boots, prompts = a.numerator.shape
    out = []
    for _ in range(count):
        columns = rng.integers(prompts, size=prompts)
        rows_a = rng.integers(boots, size=boots)
        rows_b = rows_a if pairs else rng.integers(boots, size=boots)
        means = [
            np.mean([s.numerator[r, columns].sum() / s.denominator[r, columns].sum() for r in rows])
            for s, rows in ((a, rows_a), (b, rows_b))
        ]
        out.append(means[1] - means[0])
    return np.array(out)


@pytest.mark.parametrize("pairs", [False, True])
def test_resamples_have_the_law_of_the_slow_bootstrap(pairs: bool) -> None:
    a, b = arm(3), arm(4, shift=0.1)
    (found,) = pigeonhole([(a, b)], pairs=pairs, resamples=3000)
    slow = brute(a, b, 2000, pairs=pairs)
    assert stats.ks_2samp(found.drawn_b - found.drawn_a, slow).pvalue > 0.01
    assert np.std(found.drawn_b - found.drawn_a) == pytest.approx(slow.std(), rel=0.06)


def test_cells_are_counted_three_times_and_taken_out_twice() -> None:
    """Owen (2007), theorem 3: boots + prompts + 3 cells; what remains is the two-way variance, expanded."""
    a, b = arm(5), arm(6)
    (found,) = pigeonhole([(a, b)], pairs=False, resamples=20000)
    per_arm = [components(s.per_boot, s.residuals) for s in (a, b)]
    across = components(np.zeros(1), (b.residuals.mean(0) - a.residuals.mean(0))[None])
    cells = sum(part.cells for part in per_arm)
    boots = sum(part.boots for part in per_arm) * 11 / 12
    drawn = float((found.drawn_b - found.drawn_a).var())
    # Boots' variances hold the cells once, the prompts' too, and every resample adds them once more.
    assert drawn == pytest.approx(boots + across.prompts + cells, rel=0.08)
    left = math.sqrt(drawn - 2 * cells)
    assert found.error() == pytest.approx(left * math.sqrt(12 / 11), rel=0.01)
    df = independent(a.per_boot, b.per_boot).df
    assert found.expansion == pytest.approx(stats.t.ppf(0.975, df) / 1.959964)
    low, high = found.interval()
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, df) * found.error(), rel=0.05)


def test_the_same_seed_draws_the_same_and_figures_share_draws() -> None:
    a, b = arm(3), arm(4)
    one, two = (pigeonhole([(a, b), (a, a)], pairs=False, resamples=500, seed=4) for _ in range(2))
    assert (one[0].drawn_a == two[0].drawn_a).all()
    assert (one[0].drawn_a == one[1].drawn_a).all()


def test_intervals_and_p_by_hand() -> None:
    """Resamples 1 … 99 of the difference around 50 with width 1: 5 % and 95 % quantiles, shares."""
    found = Resampled(100.0, 150.0, np.full(99, 100.0), 100.0 + np.arange(1, 100), 1.0, 1.0, 10.0)
    assert found.interval(0.9) == pytest.approx((5.9, 94.1))
    assert found.p == pytest.approx(2 * 1 / 100)
    assert found.p_beyond(0.5) == pytest.approx(51 / 100)  # 50 resamples reach 150 or more
    between = found.ratio_interval(0.9)
    assert between == pytest.approx((1.059, 1.941), abs=1e-5)  # quantiles of logarithms
    assert replace(found, width=0.25, expansion=2).interval(0.9) == pytest.approx((27.95, 72.05))


def test_a_zero_figure_has_no_ratio() -> None:
    zero = Sums("survival", 3, np.zeros((12, 30)), np.ones((12, 30)))
    (found,) = pigeonhole([(zero, zero)], pairs=False, resamples=50)
    assert found.ratio_interval() is None
    assert (found.ratio, found.difference, found.p) == (None, 0, 1)


def test_arms_that_are_the_same_differ_by_nothing() -> None:
    a = arm(3)
    for pairs in (False, True):
        (found,) = pigeonhole([(a, a)], pairs=pairs, resamples=500)
        assert found.difference == 0
        assert found.p > 0.9


def test_a_figure_that_resamples_lack_keeps_t() -> None:
    """Each boot offers the draft in one round of one prompt: a third of the resamples have none."""
    offered = np.zeros((12, 30))
    offered[:, 4] = 1
    rare = Sums("conditional", 6, offered * np.linspace(0, 1, 12)[:, None], offered)
    usual = Sums("tau", None, np.ones((12, 30)), np.ones((12, 30)), 1.0)
    kinds = [type(test) for test in pigeonhole([(rare, rare), (usual, usual)], pairs=False, resamples=200)]
    assert kinds == [Contrast, Resampled]
