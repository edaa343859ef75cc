"""A comparison as one JSON object (`docs/statistics.md` lists the keys)."""

from __future__ import annotations

import math
from typing import Any

from truedraft.contract import DEFINITION
from truedraft.stats import Arm, Comparison, Row
from truedraft.stats.components import ArmEstimate

Ends = tuple[float, float] | None


def comparison_json(result: Comparison) -> dict[str, Any]:
    """The object that `truedraft compare --json` prints."""
    plan = result.design
    across, of_a, of_b = result.same_text
    return {
        "schema": 1,
        "definition": DEFINITION,
        "a": _arm(result.a, result.boot_sd[0]),
        "b": _arm(result.b, result.boot_sd[1]),
        "design": {
            "method": plan.method,
            "boots": "paired" if plan.pairs else "independent",
            "prompts": len(plan.prompts),
            "prompts_left_out": plan.left_out,
            "prompts_are": "drawn anew" if plan.many else "held fixed",
            "tau_only": plan.tau_only or None,
            "no_rate": plan.no_rate or None,
        },
        "verdict": result.row("tau").verdict,
        "figures": [_row(row) for row in result.rows],
        "text_identical": {"between_arms": across, "within_a": of_a, "within_b": of_b},
        "settings_that_differ": {key: list(values) for key, values in result.settings.items()},
        "warnings": list(result.warnings),
    }


def _arm(arm: Arm, boot_sd: float | None) -> dict[str, Any]:
    return {"name": arm.name, "boots": list(arm.boots), "rounds": arm.rounds, "boot_sd": boot_sd}


def _row(row: Row) -> dict[str, Any]:
    test = row.test
    return {
        "figure": row.figure,
        "position": row.position,
        "category": row.category,
        "prompts": row.prompts,
        "a": _estimate(row.a),
        "b": _estimate(row.b),
        "difference": _figure(row.b.value - row.a.value, test.interval() if test else None),
        "ratio": _figure(
            row.b.value / row.a.value if row.a.value else None, test.ratio_interval() if test else None
        ),
        "df": test and _finite(test.df),
        "p": test and test.p,
        "p_adjusted": test and row.p,
        "family": row.family,
        "verdict": row.verdict,
        "detectable": None if row.detectable is None else _finite(row.detectable),
        "margin": row.margin,
        "equivalent": row.equivalent,
        "p_equivalent": None if row.equivalent is None else row.beyond,
    }


def _estimate(estimate: ArmEstimate) -> dict[str, Any]:
    return _figure(estimate.value, estimate.interval())


def _figure(value: float | None, interval: Ends) -> dict[str, Any]:
    return {"value": value, "interval": None if interval is None else list(interval)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
