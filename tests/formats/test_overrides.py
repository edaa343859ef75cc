"""`--set`: what it accepts, what follows from it, and that resolving is idempotent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints import DEEPSPEC, GOLDENS, TARGET, ZLAB, changed, write
from hypothesis import given, settings
from hypothesis import strategies as st

from truedraft.contract import AXES, Contract, InputError, Record, diff, format_value
from truedraft.formats import resolve

CASES = ("dflash_zlab_full", "dflash_zlab_swa_causal", "dspark_deepspec_vanilla", "dspark_deepspec_rnn")


def golden(case: str, *overrides: str) -> Contract:
    return resolve(GOLDENS / case / "target", GOLDENS / case / "draft", overrides).contract


SWA = "dflash_zlab_swa_causal"

GOOD: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "whole tuple": (("taps.layers=1,3,5",), {"taps.layers": (1, 3, 5), "taps.state": ("residual",) * 3}),
    "reversed taps": (("taps.layers=4,2,0",), {"taps.layers": (4, 2, 0)}),
    "one entry": (("attention.window[2]=32",), {"attention.window": (16, 16, 32)}),
    "one value for all": (("attention.window=none",), {"attention.window": (None,) * 3}),
    "repeated": (("attention.window=2x8,none",), {"attention.window": (8, 8, None)}),
    "window does not move causality": (("attention.window=none",), {"attention.causal": (True, True, False)}),
    "a later one wins": (("block.mask_token_id=3", "block.mask_token_id=4"), {"block.mask_token_id": 4}),
    "an entry on top": (("rope.theta=1e4", "rope.theta[0]=5e5"), {"rope.theta": (5e5, 1e4, 1e4)}),
    "first slot moves width": (
        ("block.first_slot=predicts_next",),
        {"block.first_slot": "predicts_next", "block.width": 7, "block.proposals": 7},
    ),
    "proposals move width": (("block.proposals=3",), {"block.width": 4, "block.proposals": 3}),
    "width moves proposals": (("block.width=5",), {"block.width": 5, "block.proposals": 4}),
    "slot and proposals": (
        ("block.first_slot=predicts_next", "block.proposals=3"),
        {"block.width": 3, "block.proposals": 3},
    ),
    "all three": (
        ("block.first_slot=predicts_next", "block.proposals=3", "block.width=8"),
        {"block.width": 8, "block.proposals": 3},
    ),
    "yarn brings its factor": (
        ("rope.scaling=yarn:factor=1:original_max_position_embeddings=64:truncate=false",),
        {"rope.attention_factor": (1.0,) * 3},
    ),
    "yes and no": (("attention.causal=no",), {"attention.causal": (False,) * 3}),
}


@pytest.mark.parametrize("name", GOOD)
def test_override(name: str) -> None:
    overrides, axes = GOOD[name]
    contract = golden(SWA, *overrides)
    for axis, value in axes.items():
        assert contract[axis] == value, axis
    for item in overrides:
        source = contract.axes[item.partition("=")[0].partition("[")[0]].source
        assert source is not None
        assert source.kind == "override"
        assert source.where.startswith("--set ")


def test_override_changes_nothing_else() -> None:
    changed = {d.axis for d in diff(golden(SWA), golden(SWA, "rope.theta=1e4"))}
    assert changed == {"rope.theta"}
    changed = {d.axis for d in diff(golden(SWA), golden(SWA, "block.first_slot=predicts_next"))}
    assert changed == {"block.first_slot", "block.width"}
    width = golden(SWA, "block.first_slot=predicts_next").axes["block.width"]
    assert width.note == "follows block.first_slot"
    assert width.source is not None
    assert width.source.kind == "override"


BAD = {
    "unknown axis": ("block.widht=3", "no such axis; did you mean block.width?"),
    "no axis at all": ("zzz=3", "no such axis"),
    "no equals sign": ("block.width", "expected axis=value"),
    "empty": ("", "expected axis=value"),
    "no value": ("block.width=", "found no value, expected a whole number >= 1"),
    "bad number": ("block.width=x", "found 'x', expected a whole number >= 1"),
    "too small": ("block.width=0", "found '0', expected a whole number"),
    "no room": ("block.width=1", "found width 1, expected 2 to"),
    "proposals beyond width": ("block.proposals=9999", "expected 2 to 4096"),
    "bad choice": ("block.first_slot=first", "expected one of predicts_next, unused"),
    "bad boolean": ("attention.causal=maybe", "expected true or false"),
    "nan": ("rope.theta=nan", "expected a positive number"),
    "infinite": ("rope.theta=inf", "expected a positive number"),
    "5000 digits": ("block.width=" + "9" * 5000, "expected a whole number"),
    "wrong count": ("attention.window=1,2", "found 2 entries, expected 1 or 3"),
    "entry beyond": ("attention.window[3]=1", "found entry 3, expected 0 to 2"),
    "entry of a scalar": ("block.width[0]=1", "block.width has one value"),
    "two values for an entry": ("attention.window[0]=1,2", "expected 1 or 1"),
    "tap beyond the target": ("taps.layers=0,6", "a tap beyond the target, found 6, expected -1 to 5"),
    "tap repeated": ("taps.layers=2,2,4", "repeated taps"),
    "tap entry repeated": ("taps.layers[0]=2", "repeated taps"),
    "taps of another number": ("taps.layers=0,2", "fc.weight: found shape [64, 192], expected [64, 128]"),
    "mask outside": ("block.mask_token_id=256", "found mask token id 256"),
    "not of this family": ("markov.rank=3", "markov.rank does not apply to family dflash"),
    "scaling kind": ("rope.scaling=magic:factor=2", "expected none or KIND:key=number"),
    "scaling without factor": ("rope.scaling=yarn:factor=2", "expected none or KIND"),
    "scaling twice": ("rope.scaling=linear:factor=2:factor=3", "expected none or KIND"),
    "layers": ("backbone.layers=2", "layer_types: found 3 entries, expected 2"),
    "hidden size": ("backbone.hidden_size=32", "expected the target's 64"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_override(name: str) -> None:
    item, message = BAD[name]
    with pytest.raises(InputError) as caught:
        golden(SWA, item)
    assert message in str(caught.value)


def test_entry_of_an_unknown_axis(tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", {k: v for k, v in ZLAB.items() if k != "rope_theta"})
    target = write(tmp_path / "target", TARGET)
    with pytest.raises(InputError, match="the other entries are unknown"):
        resolve(target, draft, ["rope.theta[0]=1e4"])
    assert resolve(target, draft, ["rope.theta=1e4"]).contract.unsettled == ()


def test_missing_block_size_can_be_set_either_way(tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", {k: v for k, v in ZLAB.items() if k != "block_size"})
    target = write(tmp_path / "target", TARGET)
    assert resolve(target, draft).contract.unsettled == ("block.width", "block.proposals")
    for item in ("block.width=8", "block.proposals=7"):
        contract = resolve(target, draft, [item]).contract
        assert (contract["block.width"], contract["block.proposals"]) == (8, 7)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("axis", AXES)
def test_own_value_changes_nothing(axis: str, case: str) -> None:
    base = golden(case)
    if base.axes[axis].state != "value":
        return
    again = golden(case, f"{axis}={format_value(base.axes[axis].value)}")
    assert diff(base, again) == ()
    assert again.hash == base.hash


SOME = st.lists(
    st.sampled_from(
        [
            "taps.layers=4,2,0",
            "taps.layers[1]=3",
            "attention.window=7",
            "attention.window[0]=none",
            "attention.causal[1]=true",
            "rope.theta=12345.678901234567",
            "rope.scaling=yarn:factor=3.7:original_max_position_embeddings=64:beta_fast=31:truncate=true",
            "rope.scaling[0]=linear:factor=2.5",
            "block.first_slot=predicts_next",
            "block.first_slot=unused",
            "block.proposals=4",
            "block.width=12",
            "block.mask_token_id=17",
            "embedding.scale=1.1",
            "head.softcap=30",
            "regime.thinking=false",
        ]
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=60)
@given(case=st.sampled_from(CASES), overrides=SOME, axis=st.sampled_from(sorted(AXES)))
def test_resolving_is_idempotent(case: str, overrides: list[str], axis: str) -> None:
    try:
        base = golden(case, *overrides)
    except InputError:
        return
    assert golden(case, *overrides) == base
    if base.axes[axis].state == "value":
        again = golden(case, *overrides, f"{axis}={format_value(base.axes[axis].value)}")
        assert diff(base, again) == ()
        assert again.hash == base.hash


CONFIG_VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    CONFIG_VALUES | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

POINTERS = (
    "is_causal",
    "partial_rotary_factor",
    "max_window_layers",
    "dflash_config/target_layer_ids",
    "dflash_config/mask_token_id",
    "dflash_config/block_size",
    "dflash_config/use_swa",
    "dflash_config/final_logit_softcapping",
    "rope_parameters/rope_theta",
    "rope_parameters/rope_type",
    "rope_parameters/partial_rotary_factor",
    "rope_parameters/full_attention",
    "rope_parameters/sliding_attention/rope_theta",
)


@settings(deadline=None, max_examples=200)
@given(data=st.data(), base=st.sampled_from([ZLAB, DEEPSPEC]))
def test_any_value_of_any_key_resolves_or_is_one_line(
    data: st.DataObject, base: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = data.draw(st.sampled_from(sorted({*base, *POINTERS})))
    path = tmp_path_factory.mktemp("any")
    draft = write(path / "draft", changed(base, {key: data.draw(JSON)}))
    try:
        contract = resolve(write(path / "target", TARGET), draft).contract
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert contract.hash


def test_number_forms_hash_alike() -> None:
    assert golden(SWA, "rope.theta=1e6").hash == golden(SWA).hash
    scaling = golden(SWA, "rope.scaling=linear:factor=2")["rope.scaling"][0]
    assert scaling == Record({"kind": "linear", "factor": 2.0})
