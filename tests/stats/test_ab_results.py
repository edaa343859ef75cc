"""The committed results of `benchmarks/ab_simulation.py` hold what `docs/statistics.md` promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "ab_simulation.json"
RESULTS: dict[str, Any] = json.loads(FILE.read_text())
FEW = RESULTS["few boots"]


def test_it_is_the_whole_simulation() -> None:
    assert RESULTS["scale"] == 1
    assert min(entry["of"] for entry in FEW["alarms"].values()) >= 3000


@pytest.mark.parametrize("case", sorted(FEW["alarms"]))
def test_false_alarms_lie_within_3_and_7_per_cent(case: str) -> None:
    assert 0.03 <= FEW["alarms"][case]["share"] <= 0.07


@pytest.mark.parametrize("case", sorted(FEW["coverage"]))
def test_coverage_lies_within_93_and_97_per_cent(case: str) -> None:
    assert 0.93 <= FEW["coverage"][case]["share"] <= 0.97


def test_power_is_within_5_points_of_the_promise() -> None:
    cases = [*FEW["power"].values(), RESULTS["other prompts"]]
    assert all(abs(case["share"] - case["promised"]) <= 0.05 for case in cases)
    assert all(abs(case["reached"] - case["promised"]) <= 0.05 for case in FEW["plan"].values())


def test_equivalence_is_claimed_wrongly_in_at_most_7_per_cent() -> None:
    assert all(case["share"] <= 0.07 for case in FEW["equivalence claimed at the margin's edge"].values())


def test_the_two_way_bootstrap_with_10_and_16_boots() -> None:
    assert all(0.03 <= case["share"] <= 0.07 for case in RESULTS["many boots"]["alarms"].values())
    held = RESULTS["many boots"]["coverage"]
    assert all(0.93 <= case["share"] <= 0.97 for key, case in held.items() if key.startswith("two-way"))
