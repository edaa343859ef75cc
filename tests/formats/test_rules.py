"""The rules of the z-lab and DeepSpec readers, one row each: change of a config -> state of an axis."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from checkpoints import DEEPSPEC, DELETE, TARGET, ZLAB, changed, write

from truedraft.contract import Contract, InputError
from truedraft.formats import resolve

FULL = ["full_attention"] * 3
NESTED = {"rope_theta": DELETE, "rope_scaling": DELETE}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e4}


def contract_of(
    path: Path, draft: dict[str, Any], *overrides: str, target: dict[str, Any] | None = None
) -> Contract:
    directory = write(path / "target", TARGET | (target or {}))
    return resolve(directory, write(path / "draft", draft), overrides).contract


ROWS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    # name: (changes of the z-lab config, {axis: value or None}, source kind, where)
    "taps nested": (
        {},
        {"taps.layers": (1, 3, 5)},
        "stated",
        "draft/config.json#/dflash_config/target_layer_ids",
    ),
    "taps top level": (
        {"dflash_config/target_layer_ids": DELETE, "target_layer_ids": [0, 2]},
        {"taps.layers": (0, 2), "taps.state": ("residual", "residual")},
        "stated",
        "draft/config.json#/target_layer_ids",
    ),
    "tap of the embedding and of the last layer": (
        {"dflash_config/target_layer_ids": [-1, 7]},
        {"taps.layers": (-1, 7)},
        "stated",
        "target_layer_ids",
    ),
    "SpecForge's name for this layout": (
        {"dflash_config/projector_type": "dflash"},
        {"block.width": 8, "block.first_slot": "unused"},
        "stated",
        "draft/config.json#/block_size",
    ),
    "block size flat": (
        {},
        {"block.width": 8, "block.proposals": 7},
        "stated",
        "draft/config.json#/block_size",
    ),
    "block size nested": (
        {"block_size": DELETE, "dflash_config/block_size": 6},
        {"block.width": 6, "block.proposals": 5},
        "stated",
        "dflash_config/block_size",
    ),
    "slot 0 unused": ({}, {"block.first_slot": "unused"}, "family", "z-lab/dflash@"),
    "mask id flat": (
        {"dflash_config/mask_token_id": DELETE, "mask_token_id": 9},
        {"block.mask_token_id": 9},
        "stated",
        "draft/config.json#/mask_token_id",
    ),
    "windows from layer_types": ({}, {"attention.window": (16, 16, None)}, "stated", "layer_types"),
    "no layer_types, no window": (
        {"layer_types": DELETE, "sliding_window": None, "use_sliding_window": DELETE},
        {"attention.window": (None,) * 3, "attention.causal": (False,) * 3},
        "family",
        "Qwen3Config",
    ),
    "windows from max_window_layers": (
        {"layer_types": DELETE, "max_window_layers": 1},
        {"attention.window": (None, 16, 16), "attention.causal": (False, True, True)},
        "stated",
        "max_window_layers",
    ),
    "ModelOpt use_swa": (
        {"layer_types": FULL, "dflash_config/use_swa": True, "dflash_config/swa_window_size": 32},
        {"attention.window": (32,) * 3},
        "stated",
        "dflash_config/swa_window_size",
    ),
    "sliding layers are causal": ({}, {"attention.causal": (True, True, False)}, "family", "no is_causal"),
    "is_causal false": ({"is_causal": False}, {"attention.causal": (False,) * 3}, "stated", "/is_causal"),
    "dflash_config causal": (
        {"dflash_config/causal": True},
        {"attention.causal": (True,) * 3},
        "stated",
        "dflash_config/causal",
    ),
    "theta flat": ({}, {"rope.theta": (1e4,) * 3}, "stated", "draft/config.json#/rope_theta"),
    "theta nested": (
        {**NESTED, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
        {"rope.theta": (5e5,) * 3},
        "stated",
        "rope_parameters/rope_theta",
    ),
    "theta per kind": (
        {
            **NESTED,
            "rope_parameters": {
                "full_attention": {"rope_theta": 1e6, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
            },
        },
        {"rope.theta": (1e4, 1e4, 1e6)},
        "stated",
        "rope_parameters",
    ),
    "partial rotary": (
        {"partial_rotary_factor": 0.5},
        {"rope.rotary_dims": (8,) * 3},
        "stated",
        "partial_rotary_factor",
    ),
    "whole head rotated": ({}, {"rope.rotary_dims": (16,) * 3}, "family", "whole head"),
    "YaRN factor by formula": (
        {**NESTED, "rope_parameters": YARN},
        {"rope.attention_factor": (0.1 * math.log(4.0) + 1,) * 3},
        "family",
        "modeling_rope_utils",
    ),
    "YaRN factor from mscales": (
        {**NESTED, "rope_parameters": {**YARN, "mscale": 2.0, "mscale_all_dim": 1.0}},
        {"rope.attention_factor": ((0.2 * math.log(4.0) + 1) / (0.1 * math.log(4.0) + 1),) * 3},
        "family",
        "modeling_rope_utils",
    ),
    "YaRN factor stated": (
        {**NESTED, "rope_parameters": {**YARN, "attention_factor": 1.25}},
        {"rope.attention_factor": (1.25,) * 3},
        "stated",
        "rope_parameters/attention_factor",
    ),
    "embedding scale": (
        {"dflash_config/input_embedding_scale": 8},
        {"embedding.scale": 8.0},
        "stated",
        "input_embedding_scale",
    ),
    "softcap": ({"final_logit_softcapping": 30}, {"head.softcap": 30.0}, "stated", "final_logit_softcapping"),
    "multiplier": (
        {"dflash_config/output_multiplier": 0.5},
        {"head.multiplier": 0.5},
        "stated",
        "output_multiplier",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_zlab_rule(name: str, tmp_path: Path) -> None:
    changes, axes, kind, where = ROWS[name]
    contract = contract_of(tmp_path, changed(ZLAB, changes))
    for axis, value in axes.items():
        assert contract.axes[axis].value == value, axis
    source = contract.axes[next(iter(axes))].source
    assert source is not None
    assert source.kind == kind
    assert where in source.where
    assert contract.conflicts == ()
    assert contract.unread_keys == ()


UNKNOWN: dict[str, tuple[dict[str, Any], str, str]] = {
    "no taps": ({"dflash_config/target_layer_ids": DELETE}, "taps.layers", "default formula gives [1, 3, 5]"),
    "no block size": ({"block_size": DELETE}, "block.width", "no block_size"),
    "no mask id": ({"dflash_config/mask_token_id": DELETE}, "block.mask_token_id", "no mask_token_id"),
    "no theta": ({"rope_theta": DELETE}, "rope.theta", "no rope_theta"),
    "window without a size": ({"sliding_window": None}, "attention.window", "is absent"),
    "which layers slide": ({"layer_types": DELETE}, "attention.window", "no layer_types"),
    "causality of unknown kinds": ({"layer_types": DELETE}, "attention.causal", "no is_causal"),
    "use_swa without causal": (
        {"layer_types": FULL, "dflash_config/use_swa": True},
        "attention.causal",
        "no is_causal",
    ),
    "yarn without original length": (
        {"rope_scaling": {"type": "yarn", "factor": 2.0}},
        "rope.scaling",
        "original_max_position_embeddings",
    ),
    "no eps": ({"rms_norm_eps": DELETE}, "backbone.norm_eps", "no rms_norm_eps"),
    "no head_dim": ({"head_dim": DELETE}, "attention.scale", "head_dim is unknown"),
    "no layers": (
        {"num_hidden_layers": DELETE, "layer_types": DELETE},
        "rope.theta",
        "number of draft layers",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_with_a_reason(name: str, tmp_path: Path) -> None:
    changes, axis, note = UNKNOWN[name]
    contract = contract_of(tmp_path, changed(ZLAB, changes))
    assert contract.axes[axis].state == "unknown"
    assert note in contract.axes[axis].note
    assert axis in contract.unsettled


CONFLICTS: dict[str, tuple[dict[str, Any], str, list[Any], str]] = {
    # name: (changes, axis, claims in order, an override that settles it)
    "block sizes": ({"dflash_config/block_size": 16}, "block.width", [16, 8], "16"),
    "taps": ({"target_layer_ids": [2, 3, 4]}, "taps.layers", [(1, 3, 5), (2, 3, 4)], "2,3,4"),
    "first slot": (
        {"dflash_config/sample_from_anchor": True},
        "block.first_slot",
        ["predicts_next", "unused"],
        "unused",
    ),
    "window switched off": (
        {"use_sliding_window": False},
        "attention.window",
        [(16, 16, None), (None, None, None)],
        "none",
    ),
    "use_swa": (
        {"dflash_config/use_swa": True, "dflash_config/swa_window_size": 32},
        "attention.window",
        [(16, 16, None), (32, 32, 32)],
        "32",
    ),
    "causal": (
        {"is_causal": False, "dflash_config/causal": True},
        "attention.causal",
        [(False,) * 3, (True,) * 3],
        "true",
    ),
    "theta": ({"rope_parameters/rope_theta": 1e6}, "rope.theta", [(1e6,) * 3, (1e4,) * 3], "10000"),
    "layout": ({"is_neox_style": False}, "rope.layout", [("interleaved",) * 3, ("half",) * 3], "half"),
    "mask id": ({"mask_token_id": 7}, "block.mask_token_id", [1, 7], "7"),
    "softcap": (
        {"final_logit_softcapping": 30.0, "dflash_config/final_logit_softcapping": 20.0},
        "head.softcap",
        [20.0, 30.0],
        "30",
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflict_until_an_override_settles_it(name: str, tmp_path: Path) -> None:
    changes, axis, claims, answer = CONFLICTS[name]
    contract = contract_of(tmp_path, changed(ZLAB, changes))
    (conflict,) = contract.conflicts
    assert conflict.axis == axis
    assert [claim.value for claim in conflict.sources] == claims
    assert contract.axes[axis].value == claims[0]
    assert contract.unsettled == (axis,)
    settled = contract_of(tmp_path, changed(ZLAB, changes), f"{axis}={answer}")
    assert settled.conflicts == ()
    assert settled.unsettled == ()


def test_conflicting_slot_keeps_block_size_as_width(tmp_path: Path) -> None:
    draft = changed(ZLAB, {"sample_from_anchor": True})
    for slot, proposals in (("unused", 7), ("predicts_next", 8)):
        contract = contract_of(tmp_path, draft, f"block.first_slot={slot}")
        assert (contract["block.width"], contract["block.proposals"]) == (8, proposals)


def test_conflicting_width_settles_proposals_too(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, changed(ZLAB, {"dflash_config/block_size": 16}), "block.width=8")
    assert contract["block.proposals"] == 7


def test_statement_that_agrees_with_the_family_is_no_conflict(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, changed(ZLAB, {"sample_from_anchor": False}))
    source = contract.axes["block.first_slot"].source
    assert contract.conflicts == ()
    assert source is not None
    assert source.kind == "stated"


def test_gemma_target_makes_the_embedding_scale_unknown(tmp_path: Path) -> None:
    target = {"model_type": "gemma3_text"}
    contract = contract_of(tmp_path, ZLAB, target=target)
    assert contract.target.embedding_scale == 8.0
    assert contract.axes["embedding.scale"].state == "unknown"
    assert contract_of(tmp_path, ZLAB, "embedding.scale=8", target=target)["embedding.scale"] == 8.0


def test_other_num_target_layers_is_noted(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, changed(ZLAB, {"num_target_layers": 12}))
    assert contract.axes["taps.layers"].note == "num_target_layers says 12, the target has 8"


def test_unread_keys_are_listed_and_annotations_are_not(tmp_path: Path) -> None:
    changes = {
        "_note": 1,
        "surprise": 1,
        "dflash_config/shift_label": True,
        "rope_parameters/mrope_section": [1, 2],
        "rope_parameters/rope_theta": 1e4,
        "nested": {"a": {"b": 1}},
        "a/b": 1,
    }
    contract = contract_of(tmp_path, changed(ZLAB, changes))
    assert set(contract.unread_keys) == {
        f"draft/config.json#/{key}"
        for key in ("surprise", "dflash_config/shift_label", "rope_parameters/mrope_section", "nested", "a")
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tap beyond the target": ({"dflash_config/target_layer_ids": [1, 8]}, "a tap beyond the target, found 8"),
    "tap below -1": ({"dflash_config/target_layer_ids": [-2]}, "found -2, expected a whole number >= -1"),
    "repeated tap": ({"dflash_config/target_layer_ids": [1, 1]}, "repeated taps"),
    "no taps in the list": ({"dflash_config/target_layer_ids": []}, "no taps"),
    "taps as text": ({"dflash_config/target_layer_ids": ["1"]}, "expected a list of whole numbers"),
    "mask id outside": ({"dflash_config/mask_token_id": 256}, "found mask token id 256, expected a row"),
    "negative mask id": ({"dflash_config/mask_token_id": -1}, "found -1, expected a whole number >= 0"),
    "block size 0": ({"block_size": 0}, "found 0, expected a whole number >= 1"),
    "block size 1 leaves nothing": ({"block_size": 1}, "found width 1, expected 2"),
    "absurd block size": ({"block_size": 2**40}, "expected 2 to 4096"),
    "block size true": ({"block_size": True}, "found True, expected a whole number"),
    "block size 8.5": ({"block_size": 8.5}, "found 8.5, expected a whole number"),
    "vocabulary mismatch": ({"vocab_size": 300}, "vocabulary mismatch, found 300, expected 256"),
    "draft vocabulary": ({"draft_vocab_size": 100}, "vocabulary mismatch"),
    "hidden size": ({"hidden_size": 32}, "found hidden size 32, expected the target's 64"),
    "layer_types too short": ({"layer_types": ["full_attention"]}, "found 1 entries, expected 3"),
    "layer kind": (
        {"layer_types": ["linear_attention"] * 3},
        "found 'linear_attention', expected one of full",
    ),
    "window 0": ({"sliding_window": 0}, "#/sliding_window: found 0, expected a whole number >= 1"),
    "rope type": ({"rope_scaling": {"rope_type": "longrope"}}, "found rope_type 'longrope', expected one of"),
    "theta negative": ({"rope_theta": -1}, "expected a positive number"),
    "theta as text": ({"rope_theta": "1e4"}, "expected a number"),
    "odd rotary share": ({"partial_rotary_factor": 0.2}, "even"),
    "dflash_config as list": ({"dflash_config": [1]}, "dflash_config: found [1], expected an object"),
    "activation": ({"hidden_act": "relu"}, "found 'relu', expected one of silu"),
    "too many layers": ({"num_hidden_layers": 10**9, "layer_types": DELETE}, "expected at most 1024"),
    "use_swa without a size": ({"sliding_window": None, "dflash_config/use_swa": True}, "no window size"),
    "projector": ({"dflash_config/projector_type": "x"}, "unknown family: .*projector_type 'x'"),
    "model type": ({"model_type": "laguna"}, "unknown family: .*laguna"),
    "speculators": ({"speculators_model_type": "dflash"}, "transformer_layer_config: missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(InputError) as caught:
        contract_of(tmp_path, changed(ZLAB, changes))
    text = str(caught.value)
    assert message.replace(".*", "") in text or all(part in text for part in message.split(".*"))
    assert "draft" in text


DEEPSPEC_ROWS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "anchor first": (
        {},
        "dspark",
        {"block.first_slot": "predicts_next", "block.proposals": 7, "block.width": 7},
    ),
    "gated": ({"markov_head_type": "gated"}, "dspark", {"markov.kind": "gated"}),
    "rnn": ({"markov_head_type": "rnn"}, "dspark", {"markov.kind": "rnn", "markov.rank": 24}),
    "rank 0 is DFlash": (
        {"markov_rank": 0, "enable_confidence_head": False},
        "dflash",
        {
            "block.first_slot": "predicts_next",
            "block.proposals": 7,
            "markov.kind": None,
            "embedding.source": "own",
        },
    ),
    "rank 0 with confidence": (
        {"markov_rank": 0, "confidence_head_with_markov": False},
        "dspark",
        {"markov.kind": "none", "confidence.with_markov": False, "markov.rank": None},
    ),
    "no confidence": (
        {"enable_confidence_head": False},
        "dspark",
        {"confidence.input": "none", "confidence.bias": None},
    ),
    "never causal": ({}, "dspark", {"attention.causal": (False,) * 3}),
}


@pytest.mark.parametrize("name", DEEPSPEC_ROWS)
def test_deepspec_rule(name: str, tmp_path: Path) -> None:
    changes, family, axes = DEEPSPEC_ROWS[name]
    contract = contract_of(tmp_path, changed(DEEPSPEC, changes))
    assert contract.family == family
    assert contract.dialect == "deepspec"
    for axis, value in axes.items():
        assert contract.axes[axis].state == ("not_applicable" if value is None else "value"), axis
        assert contract.axes[axis].value == value, axis
    assert contract.unsettled == ()
    assert contract.unread_keys == ()


def test_deepspec_without_head_keys_is_unknown_not_guessed(tmp_path: Path) -> None:
    keys = ("markov_rank", "markov_head_type", "enable_confidence_head", "confidence_head_with_markov")
    contract = contract_of(tmp_path, changed(DEEPSPEC, dict.fromkeys(keys, DELETE)))
    assert contract.family == "dspark"
    assert {"markov.kind", "markov.rank", "confidence.input", "confidence.with_markov"} <= set(
        contract.unsettled
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"markov_rank": -1}, "found -1"),
        ({"markov_head_type": "lstm"}, "found 'lstm', expected one of vanilla"),
    ],
)
def test_deepspec_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        contract_of(tmp_path, changed(DEEPSPEC, changes))


def test_a_tap_of_the_last_layer_is_a_guess_for_z_lab_and_a_rule_for_deepspec(tmp_path: Path) -> None:
    changes = {"dflash_config": {"mask_token_id": 1, "target_layer_ids": [1, 3, 7]}}
    contract = contract_of(tmp_path, ZLAB | changes)
    source = contract.axes["taps.state"].source
    assert source is not None
    assert source.kind == "inferred"
    assert contract.inferred == ("taps.state",)
    deepspec = contract_of(tmp_path / "deepspec", DEEPSPEC | {"target_layer_ids": [1, 3, 7]})
    assert deepspec.inferred == ()
