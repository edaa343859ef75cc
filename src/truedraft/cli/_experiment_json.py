"""An experiment as one JSON object (`docs/experiment.md` lists the keys)."""

from __future__ import annotations

from typing import Any

from truedraft.cli._compare_json import comparison_json
from truedraft.cli._experiment_text import equal_outputs
from truedraft.contract import acceptance
from truedraft.engines.vllm.experiment import Change, Difference, Outcome, Setup, Side
from truedraft.measure.sources.definitions import TAU_ENGINE


def experiment_json(setup: Setup, found: Outcome) -> dict[str, Any]:
    """The object that `truedraft experiment --json` prints."""
    plain, first = found.results[0], found.results[1]
    return {
        "schema": 1,
        "engine": "vllm",
        "versions": plain.versions,
        "runner": first.runner,
        "device": plain.device,
        "block_size": first.block_size,
        "definition": TAU_ENGINE,
        "settings": setup.settings(),
        "boots": [{"boot": result.block, "arm": result.arm} for result in found.results],
        "lossless": {
            "method": "greedy_identity",
            "left_out": list(found.left_out),
            "differences": [
                {
                    "arm": entry.arm,
                    "boot": entry.block,
                    "prompt_id": entry.prompt_id,
                    "pass": entry.number,
                    "position": entry.position,
                }
                for entry in found.divergences
            ],
        },
        "base": found.base,
        "arms": [_side(side, found) for side in found.sides],
        "differences": [_difference(entry) for entry in found.differences],
    }


def _side(side: Side, found: Outcome) -> dict[str, Any]:
    equal, of = equal_outputs(found, side)
    estimate, interval = side.estimate, side.estimate and side.estimate.interval()
    counted = acceptance(r for r in found.records if r.arm == side.counted.name) if estimate else None
    return {
        "arm": side.arm,
        "passes": side.passes or None,
        "tau": estimate and {"value": estimate.value, "interval": interval and list(interval)},
        "acceptance": counted and counted.to_json(),
        "repeats_itself": side.counted.repeats_itself,
        "outputs": {"equal": equal, "of": of},
        "cached_tokens": side.cached,
        "prompt_tokens": side.prompt_tokens,
        "plugin": list(found.said.get(side.arm, ())),
    }


def _difference(entry: Difference) -> dict[str, Any]:
    return {
        "a": entry.a.name,
        "b": entry.b.name,
        **_change(entry.change),
        "categories": {name: _change(change) for name, change in entry.categories.items()},
        "comparison": comparison_json(entry.comparison),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "tau": {"value": change.value, "interval": change.interval and list(change.interval)},
        "interval_over": change.basis,
        "p": change.p,
    }
