"""A small A/B simulation with a known truth; `benchmarks/ab_simulation.py` is the large one.

Bounds are four standard errors of a share around 5 % (false alarms), 95 % (coverage) and the promised power.
"""

from __future__ import annotations

import numpy as np
import pytest

from ab_model import Counts, Engine, lengths, simulate
from truedraft.stats.components import components
from truedraft.stats.contrast import independent
from truedraft.stats.plan import spread_of_sums

PROMPTS, BOOTS = 40, 1920


@pytest.fixture(scope="module")
def pools() -> tuple[Counts, Counts]:
    rng = np.random.default_rng(20)
    engine, rounds = Engine(), lengths(PROMPTS, rng) // 4
    difficulty = engine.prompt * rng.standard_normal(PROMPTS)
    return tuple(simulate(engine, difficulty + shift, rounds, BOOTS, rng) for shift in (0, 0.25))  # type: ignore


@pytest.mark.parametrize("boots", [2, 3, 5, 8])
@pytest.mark.parametrize("figure", ["tau", "tau_macro", "survival"])
def test_false_alarms_coverage_and_power(pools: tuple[Counts, Counts], boots: int, figure: str) -> None:
    a, b = (pool.sums(figure, slice(None)).per_boot for pool in pools)
    groups = [slice(low, low + boots) for low in range(0, BOOTS - boots + 1, boots)]
    alarms = [independent(a[x], a[y]).p < 0.05 for x, y in zip(groups[::2], groups[1::2], strict=False)]
    truth, ratio = b.mean() - a.mean(), b.mean() / a.mean()
    tests = [independent(a[x], b[x]) for x in groups]
    inside = [low <= truth <= high for low, high in (test.interval() for test in tests)]
    between = [test.ratio_interval() for test in tests]
    held = [ends is None or ends[0] <= ratio <= ends[1] for ends in between]
    spread = spread_of_sums([pools[0].sums(figure, slice(None))])
    promised = spread.power(ratio - 1, boots, PROMPTS)
    for found, wanted in ((alarms, 0.05), (inside, 0.95), (held, 0.95)):
        assert np.mean(found) == pytest.approx(wanted, abs=4 * np.sqrt(0.05 * 0.95 / len(found)))
    seen = [test.p < 0.05 for test in tests]
    assert np.mean(seen) == pytest.approx(promised, abs=0.03 + 4 * np.sqrt(0.25 / len(seen)))


def test_a_single_boot_looks_like_a_difference() -> None:
    """Pairing prompts within one boot per arm takes the boots' spread for a difference (`measurement.md`)."""
    rng, engine = np.random.default_rng(21), Engine()
    difficulty = engine.prompt * rng.standard_normal(160)
    sums = simulate(engine, difficulty, lengths(160, rng), 400, rng).sums("tau", slice(None))
    differences = sums.residuals[1::2] - sums.residuals[::2]
    errors = [components(np.zeros(1), row[None]).prompts ** 0.5 for row in differences]
    alarms = np.abs(sums.per_boot[1::2] - sums.per_boot[::2]) > 1.975 * np.array(errors)
    assert np.mean(alarms) == pytest.approx(0.22, abs=0.1)
