"""Variance components and one arm's interval: analysis of variance by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from truedraft.stats.components import ArmEstimate, components
from truedraft.stats.figures import Sums


def crossed(boots: int, prompts: int, seed: int = 0) -> tuple[Sums, np.ndarray]:
    """Equal rounds everywhere, so that a boot's figure is the mean of its prompts' values."""
    rng = np.random.default_rng(seed)
    values = (
        2 + rng.normal(0, 0.1, (boots, 1)) + rng.normal(0, 1, prompts) + rng.normal(0, 0.3, (boots, prompts))
    )
    return Sums("tau", None, 50 * values, np.full(values.shape, 50.0), 1.0), values


def test_components_are_mean_squares_of_the_two_way_layout() -> None:
    sums, values = crossed(4, 7)
    found = components(sums.per_boot, sums.residuals)
    rows, columns, mean = values.mean(1), values.mean(0), values.mean()
    within = sum((values[i, j] - rows[i] - columns[j] + mean) ** 2 for i in range(4) for j in range(7)) / (
        3 * 6
    )
    assert found.boots == pytest.approx(sum((row - mean) ** 2 for row in rows) / 3 / 4)
    assert found.prompts == pytest.approx(sum((column - mean) ** 2 for column in columns) / 6 / 7)
    assert found.cells == pytest.approx(within / 28)


def test_one_boot_gives_the_clustered_error_of_a_ratio() -> None:
    """Jackknife over prompts as the oracle: close for a ratio of sums over many prompts."""
    rng = np.random.default_rng(2)
    rounds = rng.integers(20, 60, 200).astype(float)
    accepted = rng.gamma(2, 1, 200) * rounds
    sums = Sums("tau", None, accepted[None], rounds[None], 1.0)
    left_out = (accepted.sum() - accepted) / (rounds.sum() - rounds)
    jackknife = math.sqrt(199 / 200 * np.square(left_out - left_out.mean()).sum())
    found = ArmEstimate.of(sums)
    assert found.value == pytest.approx(1 + accepted.sum() / rounds.sum())
    assert found.error == pytest.approx(jackknife, rel=0.01)
    assert found.df == 199


def test_one_prompt_has_no_interval() -> None:
    found = ArmEstimate.of(Sums("rate", None, np.ones((3, 1)), np.full((3, 1), 2.0)))
    assert (found.value, found.interval()) == (0.5, None)


def test_boots_widen_the_interval() -> None:
    sums, _ = crossed(5, 40)
    shaken = Sums("tau", None, sums.numerator + 50 * np.linspace(-2, 2, 5)[:, None], sums.denominator, 1.0)
    assert ArmEstimate.of(shaken).error > 2 * ArmEstimate.of(sums).error
    assert ArmEstimate.of(shaken).df < 8
    assert ArmEstimate.of(sums).df > 20
