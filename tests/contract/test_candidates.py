"""`Axis.candidates`: which values a probe tries, for axes in every state, and that `--set` takes each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from truedraft.contract import (
    AXES,
    Conflict,
    Contract,
    InputError,
    Sourced,
    TargetSpec,
    format_value,
    inferred,
    not_applicable,
    stated,
    unknown,
)
from truedraft.formats import resolve

SPEC = TargetSpec("qwen3", 8, 64, 256, 1024, ("full_attention",) * 8)
BY_TENSORS = ("embedding.source", "head.source", "head.vocabulary_map", "markov.kind", "fusion.output_norm")
DRAFTERS = [
    "dflash",
    "dflash-full",
    "dspark",
    "dflash-speculators",
    "dspark-bonus",
    "dspark-anchor",
    "eagle3",
]


def contract(conflicts: tuple[Conflict, ...] = (), **changes: Sourced) -> Contract:
    axes = dict.fromkeys(AXES, not_applicable())
    axes |= {"taps.layers": stated((1, 3, 5), "x"), "backbone.layers": stated(2, "x")}
    axes |= {name.replace("__", "."): sourced for name, sourced in changes.items()}
    return Contract("dflash", "zlab", SPEC, axes, conflicts)


def candidates(axis: str, sourced: Sourced, *conflicts: Conflict, **more: Sourced) -> tuple[Any, ...]:
    changes: dict[str, Sourced] = {**more, axis: sourced}
    return AXES[axis].candidates(contract(conflicts, **changes))


def value(entry: Any) -> Sourced:
    return stated(entry, "x")


@pytest.mark.parametrize(
    ("axis", "wanted"),
    [
        ("fusion.output_norm", (True, False)),
        ("chain.norm_before_residual", (True, False)),
        ("block.first_slot", ("predicts_next", "unused")),
        ("markov.kind", ("none", "vanilla", "gated", "rnn")),
        ("attention.causal", ((True, True), (False, False))),
        ("rope.layout", (("half", "half"), ("interleaved", "interleaved"))),
        ("taps.state", tuple((s,) * 3 for s in ("residual", "post_norm", "stream_mean", "layer_input"))),
        ("rope.theta", ((1e4, 1e4), (5e5, 5e5), (1e6, 1e6), (1e7, 1e7))),
        ("block.proposals", (5, 7, 8, 15)),
        ("taps.layers", ()),  # nobody can guess them
        ("block.mask_token_id", ()),
        ("backbone.norm_eps", ()),
        ("regime.chat_template", ()),
    ],
)
def test_unknown(axis: str, wanted: tuple[Any, ...]) -> None:
    assert candidates(axis, unknown("")) == wanted


def test_unknown_windows_bracket_any() -> None:
    found = candidates("attention.window", unknown(""))
    assert found[0] == (None, None)
    sizes = [entry[0] for entry in found[1:]]
    assert all(entry == (size, size) for entry, size in zip(found[1:], sizes, strict=True))
    assert sizes == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]


@pytest.mark.parametrize("layers", [unknown(""), not_applicable()])
def test_unknown_without_a_number_of_layers(layers: Sourced) -> None:
    """Nothing can be spread over layers that nobody counted."""
    assert candidates("rope.theta", unknown(""), backbone__layers=layers) == ()
    assert candidates("attention.causal", unknown(""), backbone__layers=layers) == ()
    assert candidates("block.first_slot", unknown(""), backbone__layers=layers) == ("predicts_next", "unused")


@pytest.mark.parametrize(
    ("axis", "own", "wanted"),
    [
        ("block.first_slot", "unused", ("unused", "predicts_next")),
        ("fusion.output_norm", False, (False, True)),
        ("block.position_offset", 0, (0, -1, 1)),
        ("block.proposals", 1, (1, 2, 5, 7, 8, 15)),
        (
            "rope.theta",
            (10000, 1e6),
            ((1e4, 1e6), (5e5, 1e6), (1e6, 1e6), (1e7, 1e6), (1e4, 1e4), (1e4, 5e5), (1e4, 1e7)),
        ),
        ("attention.causal", (True, False), ((True, False), (True, True), (False, False))),
        ("attention.window_rule", ("query", "query"), (("query", "query"), ("anchor", "anchor"))),
        (
            "attention.window",
            (16, None),
            ((16, None), (None, None), (8, None), (15, None), (17, None), (32, None), (16, 16)),
        ),
        (
            "taps.layers",
            (-1, 3, 7),
            ((-1, 3, 7), (7, 3, -1)),  # every shift leaves the target
        ),
        (
            "taps.layers",
            (1, 3, 5),
            (
                (1, 3, 5),
                (-1, 1, 3),
                (0, 2, 4),
                (2, 4, 6),
                (3, 5, 7),
                (5, 3, 1),
                (7, 5, 3),
                (6, 4, 2),
                (4, 2, 0),
                (3, 1, -1),
            ),
        ),
        ("block.width", 8, ()),  # no hypothesis
        ("attention.scale", (0.25, 0.25), ()),
    ],
)
def test_known(axis: str, own: Any, wanted: tuple[Any, ...]) -> None:
    found = candidates(axis, value(own))
    assert found[:1] == wanted[:1]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert len(found) == len(set(found))


def test_a_guess_is_treated_as_known() -> None:
    assert candidates("block.first_slot", inferred("unused", "a guess")) == ("unused", "predicts_next")


def test_mask_tokens_are_ids_that_stand_for_no_text() -> None:
    spec = replace(SPEC, special_token_ids=(7, 9), stop_token_ids=(9, 2))
    known = replace(contract(block__mask_token_id=value(7)), target=spec)
    assert AXES["block.mask_token_id"].candidates(known) == (7, 9, 2, 255)


def test_claims_of_a_conflict_come_first() -> None:
    claims = (value((16, None)), value((64, None)), value((None, None)))
    found = candidates("attention.window", claims[0], Conflict("attention.window", claims))
    assert found[:3] == ((16, None), (64, None), (None, None))
    assert len(found) == len(set(found))
    assert (16, 16) in found[3:]
    # also where the axis has no other hypotheses, and with values of several spellings
    clash = (value(8), value(16))
    assert candidates("block.width", clash[0], Conflict("block.width", clash)) == (8, 16)
    clash = (value((10000, 10000)), value((10000.0, 10000.0)), value((123, 123)))
    found = candidates("rope.theta", clash[0], Conflict("rope.theta", clash))
    assert found[:2] == ((1e4, 1e4), (123.0, 123.0))
    # another axis's conflict is none of its own
    assert candidates("block.width", value(8), Conflict("rope.theta", clash)) == ()


@pytest.mark.parametrize("axis", AXES)
def test_what_does_not_apply_has_no_candidates(axis: str) -> None:
    assert AXES[axis].candidates(contract(**{axis: not_applicable("none")})) == ()


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_candidate_goes_through_set(drafter: str) -> None:
    """Printed, parsed and resolved it is the same value; only tensors may refuse it, and by name."""
    own = resolve(f"tiny/{drafter}").contract
    tried = 0
    for name, axis in AXES.items():
        found = axis.candidates(own)
        assert not found or own.axes[name].state == "unknown" or found[0] == own[name]
        for candidate in found:
            leader = {"layer": "backbone.layers", "tap": "taps.layers"}.get(axis.extent)
            count = own[leader] if leader else None
            parsed = axis.parse(format_value(candidate), len(count) if isinstance(count, tuple) else count)
            assert axis.normal(parsed) == candidate
            tried += 1
            override = f"{name}={format_value(candidate)}"
            if candidate != own.get(name) and name in BY_TENSORS:
                with suppress(InputError):  # most of these need a tensor that is not there
                    resolve(f"tiny/{drafter}", overrides=[override])
                continue
            changed = resolve(f"tiny/{drafter}", overrides=[override]).contract
            assert changed[name] == candidate
            assert changed.axes[name].source.kind == "override"
    assert tried > 20
