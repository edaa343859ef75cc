"""Pooled tau and its difference over prompts: by hand, by the jackknife, and how often it is right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as reference

from arm_records import record
from truedraft.stats import Arm, over_prompts, tau_of


def arm(name: str, counts: list[list[tuple[int, int]]]) -> Arm:
    """`counts[boot][prompt]`: (accepted, rounds), spread evenly over rounds of 8 drafts."""
    made = Arm(name)
    for boot, prompts in enumerate(counts):
        for prompt, (accepted, rounds) in enumerate(prompts):
            low, more = divmod(accepted, rounds)
            table = ((8, low, rounds - more), (8, low + 1, more))
            made.add(record(f"b{boot}", f"p{prompt}", K=8, histogram=table))
    return made


def names(count: int) -> list[str]:
    return [f"p{i}" for i in range(count)]


def test_equal_rounds_are_a_paired_t_over_prompts() -> None:
    a, b = [(10, 10), (25, 10), (31, 10), (12, 10)], [(20, 10), (30, 10), (45, 10), (14, 10)]
    found = over_prompts(arm("a", [a]), arm("b", [b]), names(4))
    differences = [(y[0] - x[0]) / 10 for x, y in zip(a, b, strict=True)]
    expected = reference.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(differences))
    assert found.interval() == pytest.approx((expected.low, expected.high))


def test_unequal_rounds_agree_with_the_jackknife() -> None:
    rng = np.random.default_rng(3)
    rounds = rng.integers(20, 80, (2, 40))
    accepted = (rounds * rng.uniform(1, 4, (1, 40)) + rounds * rng.uniform(0, 0.6, (2, 40))).astype(int)
    sides = [
        [(int(x), int(n)) for x, n in zip(*side, strict=True)] for side in zip(accepted, rounds, strict=True)
    ]
    found = over_prompts(arm("a", [sides[0]]), arm("b", [sides[1]]), names(40))
    tau = accepted.sum(1) / rounds.sum(1)
    assert found.mean == pytest.approx(tau[1] - tau[0])
    without = [
        np.diff((accepted.sum(1) - accepted[:, i]) / (rounds.sum(1) - rounds[:, i]))[0] for i in range(40)
    ]
    jackknife = np.sqrt(39 / 40 * np.square(np.array(without) - np.mean(without)).sum())
    assert found.error == pytest.approx(jackknife, rel=0.05)


def test_boots_are_averaged_and_one_prompt_has_no_interval() -> None:
    a, b = arm("a", [[(10, 10)], [(20, 10)]]), arm("b", [[(30, 10)], [(30, 10)]])
    found = over_prompts(a, b, names(1))
    assert found.mean == pytest.approx(1.5)
    assert found.interval() is None
    assert tau_of(b, names(1)).value == pytest.approx(4.0)


def test_the_interval_holds_in_95_percent_of_samples_of_prompts() -> None:
    rng = np.random.default_rng(11)
    hits, trials, true = 0, 400, 0.25
    for _ in range(trials):
        rounds = rng.integers(10, 60, (2, 24))
        easy = rng.uniform(0.5, 3, 24)
        sides = []
        for extra, count in ((0.0, rounds[0]), (true, rounds[1])):
            mean = easy + extra + rng.normal(0, 0.3, 24) * (extra > 0)
            accepted = np.clip(np.round(count * np.clip(mean, 0, 8)), 0, 8 * count).astype(int)
            sides.append([(int(x), int(n)) for x, n in zip(accepted, count, strict=True)])
        found = over_prompts(arm("a", [sides[0]]), arm("b", [sides[1]]), names(24))
        interval = found.interval()
        assert interval is not None
        hits += interval[0] <= true <= interval[1]
    assert 0.90 <= hits / trials <= 0.985
