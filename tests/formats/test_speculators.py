"""Directories of speculators, and DeepSpec's EAGLE-3: golden files as saved, and changes of their configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import DELETE, GOLDENS, changed, write

from truedraft.contract import Contract, InputError
from truedraft.formats import expected, resolve

CHAIN, CHAIN_WHOLE = "eagle3_speculators_nbr_true", "eagle3_speculators_nbr_false"
DFLASH, WINDOWED = "dflash_speculators_full", "dflash_speculators_swa_causal"
ANCHOR_FIRST, FILL_IN = "dspark_speculators_anchor_first", "dspark_speculators_bonus_anchor"
DEEPSPEC = "eagle3_deepspec"
DECODER = "transformer_layer_config"
METHODS = "speculators_config/proposal_methods"


def read(path: Path, case: str, changes: dict[str, Any], *overrides: str, weights: bool = False) -> Contract:
    """The contract of a golden case after changes of its config, by default without weights."""
    config = changed(json.loads((GOLDENS / case / "draft" / "config.json").read_text()), changes)
    shapes = None
    if weights:
        found = resolve(GOLDENS / case / "target", GOLDENS / case / "draft")
        shapes = {name: tensor.shape for name, tensor in found.draft.tensors.items()}
    return resolve(GOLDENS / case / "target", write(path / "draft", config, shapes), overrides).contract


def asks_for(count: object) -> dict[str, Any]:
    """Change of the tokens per round that the checkpoint asks for."""
    return {METHODS: [{"proposal_type": "greedy", "speculative_tokens": count}]}


GOLDEN: dict[str, tuple[str, dict[str, Any]]] = {
    CHAIN: (
        "eagle3",
        {
            "taps.layers": (1, 2, 4),
            "chain.token": "next",
            "chain.position_offset": 1,
            "chain.norm_before_residual": True,
            "chain.feedback": "residual",
            "chain.steps": 4,
            "fusion.tap_norm": False,
            "fusion.concat_norm": False,
            "fusion.output_norm": False,
            "fusion.input_norm_on_context": None,
            "block.width": None,
            "attention.causal": None,
            "context.end": None,
            "backbone.qk_norm": False,
            "head.vocabulary": 128,
            "head.vocabulary_map": "offset",
            "head.source": "own",
            "embedding.source": "own",
        },
    ),
    CHAIN_WHOLE: (
        "eagle3",
        {
            "taps.layers": (0, 2, 4),
            "chain.norm_before_residual": False,
            "backbone.qk_norm": True,
            "head.vocabulary": 256,
            "head.vocabulary_map": "none",
        },
    ),
    DFLASH: (
        "dflash",
        {
            "block.first_slot": "unused",
            "block.width": 8,
            "block.proposals": 7,
            "attention.causal": (False,) * 3,
            "attention.window_rule": ("anchor",) * 3,
            "embedding.source": "target",
            "head.source": "own",
            "head.vocabulary": 160,
            "chain.token": None,
            "markov.kind": None,
        },
    ),
    WINDOWED: (
        "dflash",
        {
            "attention.window": (16, None, 16),
            "attention.causal": (True, False, True),
            "head.source": "target",
            "head.vocabulary_map": "none",
        },
    ),
    ANCHOR_FIRST: (
        "dspark",
        {
            "block.first_slot": "predicts_next",
            "block.width": 6,
            "block.proposals": 6,
            "markov.kind": "vanilla",
            "markov.rank": 24,
            "markov.previous": "previous_token",
            "confidence.input": "post_norm",
            "confidence.bias": True,
            "confidence.with_markov": True,
            "head.source": "target",
        },
    ),
    FILL_IN: (
        "dspark",
        {"block.first_slot": "unused", "block.proposals": 5, "block.width": 6, "head.vocabulary": 128},
    ),
    DEEPSPEC: (
        "eagle3",
        {
            "taps.layers": (0, 1, 2, 3, 4),
            "chain.position_offset": 0,
            "chain.norm_before_residual": False,
            "chain.feedback": "residual",
            "chain.steps": 5,
            "head.vocabulary": 256,
            "embedding.source": "own",
            "head.source": "own",
        },
    ),
}


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("case", GOLDEN)
def test_saved_directory(case: str, weights: bool, tmp_path: Path) -> None:
    family, axes = GOLDEN[case]
    contract = read(tmp_path, case, {}, weights=weights)
    assert contract.family == family
    assert contract.dialect == ("deepspec" if case == DEEPSPEC else "speculators")
    for axis, value in axes.items():
        assert contract.axes[axis].state == ("not_applicable" if value is None else "value"), axis
        assert contract.get(axis) == value, axis
    assert contract.unsettled == contract.conflicts == contract.unread_keys == contract.inferred == ()
    assert contract.hash == resolve(GOLDENS / case / "target", GOLDENS / case / "draft").contract.hash


ROWS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, str]] = {
    # name: (case, changes, {axis: value}, source kind of the first, where)
    "letter case": (
        CHAIN,
        {"speculators_model_type": "Eagle3", "speculators_config/algorithm": "EAGLE3"},
        {"chain.steps": 4},
        "stated",
        "speculative_tokens",
    ),
    "embedding tap and last layer": (
        CHAIN,
        {"eagle_aux_hidden_state_layer_ids": [0, 6]},
        {"taps.layers": (-1, 5), "taps.state": ("residual",) * 2},
        "stated",
        "eagle_aux_hidden_state_layer_ids",
    ),
    "post-norm feedback": (
        CHAIN,
        {"norm_output": True},
        {"chain.feedback": "post_norm"},
        "stated",
        "norm_output",
    ),
    "no norm_output": (CHAIN, {"norm_output": DELETE}, {"chain.feedback": "residual"}, "family", "EAGLE 3.1"),
    "tap norms": (CHAIN, {"fc_norm": True}, {"fusion.tap_norm": True}, "stated", "/fc_norm"),
    "concat norm": (
        CHAIN,
        {"norm_before_fc": True},
        {"fusion.concat_norm": True},
        "stated",
        "norm_before_fc",
    ),
    "no norm keys": (
        CHAIN,
        {"fc_norm": DELETE, "norm_before_fc": DELETE},
        {"fusion.tap_norm": False, "fusion.concat_norm": False},
        "family",
        "releases before",
    ),
    "no deployment": (
        DFLASH,
        {"speculators_config": DELETE},
        {"block.proposals": 7, "block.width": 8},
        "family",
        "width - 1",
    ),
    "one method and no default": (
        CHAIN,
        {"speculators_config/default_proposal_method": DELETE},
        {"chain.steps": 4},
        "stated",
        "proposal_methods/0/speculative_tokens",
    ),
    "default method": (
        CHAIN,
        {
            METHODS: [
                {"proposal_type": "tree", "speculative_tokens": 9},
                {"proposal_type": "greedy", "speculative_tokens": 3},
            ]
        },
        {"chain.steps": 3},
        "stated",
        "proposal_methods/1/speculative_tokens",
    ),
    "sliding layers without causality": (
        WINDOWED,
        {"sliding_window_non_causal": True},
        {"attention.causal": (False,) * 3},
        "stated",
        "sliding_window_non_causal",
    ),
    "no decoder type is Qwen3Config": (
        CHAIN,
        {
            f"{DECODER}/model_type": DELETE,
            f"{DECODER}/rms_norm_eps": DELETE,
            f"{DECODER}/layer_types": DELETE,
        },
        {"backbone.norm_eps": 1e-6, "backbone.qk_norm": True, "attention.window": (None,)},
        "family",
        "Qwen3Config default",
    ),
    "llama derives its heads": (
        CHAIN,
        {f"{DECODER}/head_dim": DELETE, f"{DECODER}/num_key_value_heads": None},
        {"backbone.head_dim": 16, "backbone.kv_heads": 4},
        "family",
        "LlamaConfig default",
    ),
    "a block drafter norms its heads whatever the type": (
        DFLASH,
        {f"{DECODER}/model_type": "llama"},
        {"backbone.qk_norm": True},
        "family",
        "Qwen3 attention",
    ),
    "unscaled rope turns the whole head": (
        CHAIN,
        {f"{DECODER}/rope_parameters/partial_rotary_factor": 0.25},
        {"rope.rotary_dims": (16,)},
        "family",
        "partial_rotary_factor is not read",
    ),
    "one rope, that of the sliding layers": (
        WINDOWED,
        {
            f"{DECODER}/rope_parameters": {
                "full_attention": {"rope_theta": 1e6, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
            }
        },
        {"rope.theta": (1e4,) * 3},
        "stated",
        "sliding_attention/rope_theta",
    ),
    "target width": (
        CHAIN,
        {"target_hidden_size": 64},
        {"backbone.hidden_size": 64},
        "stated",
        "hidden_size",
    ),
    "slot from the release": (
        DFLASH,
        {"sample_from_anchor": DELETE, "speculators_version": "0.6.0"},
        {"block.first_slot": "unused", "block.proposals": 7},
        "family",
        "PR 760",
    ),
    "slot from a nightly": (
        FILL_IN,
        {"sample_from_anchor": DELETE, "speculators_version": "0.7.0.dev12"},
        {"block.first_slot": "unused", "block.proposals": 5},
        "family",
        "PR 760",
    ),
    "slot inferred, unused": (
        FILL_IN,
        {"sample_from_anchor": DELETE, "speculators_version": DELETE},
        {"block.first_slot": "unused", "block.proposals": 5, "block.width": 6},
        "inferred",
        "block_size is 6 and speculative_tokens 5",
    ),
    "slot inferred, predicts next": (
        ANCHOR_FIRST,
        {"sample_from_anchor": None, "speculators_version": DELETE},
        {"block.first_slot": "predicts_next", "block.proposals": 6, "block.width": 6},
        "inferred",
        "block_size is 6 and speculative_tokens 6",
    ),
    "no block_size": (
        FILL_IN,
        {"block_size": DELETE},
        {"block.proposals": 5, "block.width": 6},
        "stated",
        "speculative_tokens",
    ),
    "no Markov head": (
        ANCHOR_FIRST,
        {"markov_rank": 0, "confidence_head_with_markov": False},
        {"markov.kind": "none", "confidence.with_markov": False},
        "stated",
        "markov_rank",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_rule(name: str, tmp_path: Path) -> None:
    case, changes, axes, kind, where = ROWS[name]
    contract = read(tmp_path, case, changes)
    for axis, value in axes.items():
        assert contract.get(axis) == value, axis
    source = contract.axes[next(iter(axes))].source
    assert source is not None
    assert (source.kind, where in source.where) == (kind, True), source
    assert contract.unsettled == contract.unread_keys == ()


UNKNOWN: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "residual": (CHAIN, {"norm_before_residual": DELETE}, "chain.norm_before_residual", "vLLM takes"),
    "first slot": (
        DFLASH,
        {"sample_from_anchor": DELETE, **asks_for(5)},
        "block.first_slot",
        "block_size 8 and speculative_tokens 5 do not tell",
    ),
    "first slot without a deployment": (
        DFLASH,
        {"sample_from_anchor": DELETE, "speculators_config": DELETE},
        "block.first_slot",
        "defaults disagree",
    ),
    "proposals": (
        DFLASH,
        {"sample_from_anchor": DELETE, "speculators_config": DELETE},
        "block.proposals",
        "block.first_slot",
    ),
    "causality": (WINDOWED, {"sliding_window_non_causal": DELETE}, "attention.causal", "vLLM takes"),
    "block taps": (DFLASH, {"aux_hidden_state_layer_ids": None}, "taps.layers", "aux_hidden_state_layer_ids"),
    "default taps repeat a layer": (
        CHAIN,
        {"eagle_aux_hidden_state_layer_ids": None},
        "taps.layers",
        "the default [2, 3, 3] is invalid for 6 layers",
    ),
    "theta": (CHAIN, {f"{DECODER}/rope_parameters": DELETE}, "rope.theta", "no rope_theta"),
    "vocabulary": (DFLASH, {"draft_vocab_size": DELETE}, "head.vocabulary", "no draft_vocab_size"),
    "hidden size": (CHAIN, {f"{DECODER}/hidden_size": DELETE}, "backbone.hidden_size", "no hidden_size"),
    "mask token": (DFLASH, {"mask_token_id": None}, "block.mask_token_id", "no mask_token_id"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_with_a_reason(name: str, tmp_path: Path) -> None:
    case, changes, axis, note = UNKNOWN[name]
    contract = read(tmp_path, case, changes)
    assert contract.axes[axis].state == "unknown"
    assert note in contract.axes[axis].note
    assert axis in contract.unsettled


@pytest.mark.parametrize(
    ("case", "changes", "axis", "claims", "answers"),
    [
        (
            DFLASH,
            asks_for(8),
            "block.proposals",
            [7, 8],
            ("block.first_slot=predicts_next", "block.proposals=7"),
        ),
        (
            DFLASH,
            {METHODS: [{"proposal_type": "greedy", "speculative_tokens": n} for n in (7, 4)]},
            "block.proposals",
            [7, 4],
            ("block.proposals=7",),
        ),
        (
            CHAIN,
            {METHODS: [{"proposal_type": "greedy", "speculative_tokens": n} for n in (3, 5)]},
            "chain.steps",
            [3, 5],
            ("chain.steps=5",),
        ),
    ],
)
def test_conflict(
    case: str, changes: dict[str, Any], axis: str, claims: list[int], answers: tuple[str, ...], tmp_path: Path
) -> None:
    contract = read(tmp_path, case, changes)
    assert [(c.axis, [s.value for s in c.sources]) for c in contract.conflicts] == [(axis, claims)]
    for answer in answers:
        settled = read(tmp_path, case, changes, answer)
        assert settled.unsettled == ()


def test_a_version_without_the_key_and_a_count_that_needs_it(tmp_path: Path) -> None:
    changes = asks_for(8) | {"sample_from_anchor": DELETE, "speculators_version": "0.6.0"}
    slots = next(c for c in read(tmp_path, DFLASH, changes).conflicts if c.axis == "block.first_slot")
    assert [source.value for source in slots.sources] == ["unused", "predicts_next"]
    assert read(tmp_path, DFLASH, changes, "block.first_slot=predicts_next").unsettled == ()


def test_the_tokens_asked_for_count_and_the_width_stays(tmp_path: Path) -> None:
    for case, yields, width in ((DFLASH, 7, 8), (ANCHOR_FIRST, 6, 6)):
        contract = read(tmp_path, case, asks_for(3))
        assert (contract["block.proposals"], contract["block.width"]) == (3, width)
        source = contract.axes["block.proposals"].source
        assert source is not None
        assert source.where.endswith("/proposal_methods/0/speculative_tokens")
        assert contract.axes["block.proposals"].note == f"a block as trained yields {yields}"
        assert contract.conflicts == contract.inferred == ()
        assert read(tmp_path, case, {"speculators_config": DELETE})["block.proposals"] == yields


@pytest.mark.parametrize(("slot", "proposals", "width"), [("unused", 5, 8), ("predicts_next", 5, 8)])
def test_overridden_slot_keeps_the_trained_width(
    slot: str, proposals: int, width: int, tmp_path: Path
) -> None:
    changes = {"sample_from_anchor": DELETE, **asks_for(5)}
    contract = read(tmp_path, DFLASH, changes, f"block.first_slot={slot}")
    assert (contract["block.proposals"], contract["block.width"]) == (proposals, width)
    assert contract.unsettled == ()


@pytest.mark.parametrize(
    ("case", "slot", "width", "proposals"), [(DFLASH, "predicts_next", 7, 7), (ANCHOR_FIRST, "unused", 7, 6)]
)
def test_width_follows_a_slot_that_contradicts_the_file(
    case: str, slot: str, width: int, proposals: int, tmp_path: Path
) -> None:
    contract = read(tmp_path, case, {}, f"block.first_slot={slot}")
    assert (contract["block.width"], contract["block.proposals"]) == (width, proposals)
    assert contract.unsettled == ()


def test_default_taps_where_loading_fills_them_in(tmp_path: Path) -> None:
    draft = changed(
        json.loads((GOLDENS / CHAIN / "draft" / "config.json").read_text()),
        {"eagle_aux_hidden_state_layer_ids": DELETE},
    )
    target = json.loads((GOLDENS / CHAIN / "target" / "config.json").read_text()) | {"num_hidden_layers": 8}
    directory = write(tmp_path / "target", target)
    contract = resolve(directory, write(tmp_path / "draft", draft)).contract
    assert contract["taps.layers"] == (1, 3, 4)
    source = contract.axes["taps.layers"].source
    assert source is not None
    assert source.kind == "family"
    shapes = {n: tuple(d or 0 for d in dims) for n, dims in expected(contract).items()} | {"t2d": (256,)}
    assert resolve(directory, write(tmp_path / "full", draft, shapes)).contract.unsettled == ()
    with pytest.raises(InputError, match=r"fc\.weight: found shape \[64, 256\], expected \[64, 192\]"):
        resolve(directory, write(tmp_path / "wide", draft, shapes | {"fc.weight": (64, 256)}))
    del draft["speculators_config"]["verifier"]
    assert resolve(directory, write(tmp_path / "bare", draft)).contract.axes["taps.layers"].state == "unknown"


@pytest.mark.parametrize(
    ("key", "axis", "tensors"),
    [
        ("fc_norm", "fusion.tap_norm", {f"fc_norm.{tap}.weight": (64,) for tap in range(3)}),
        ("norm_before_fc", "fusion.concat_norm", {"input_norm.weight": (192,)}),
    ],
)
def test_norms_before_fc_are_read_from_tensors_too(
    key: str, axis: str, tensors: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    golden = resolve(GOLDENS / CHAIN / "target", GOLDENS / CHAIN / "draft")
    config = dict(golden.draft.config)
    shapes = {name: tensor.shape for name, tensor in golden.draft.tensors.items()} | tensors
    target = GOLDENS / CHAIN / "target"
    stated = resolve(target, write(tmp_path / "stated", config | {key: True}, shapes)).contract
    assert (stated[axis], stated.unsettled, stated.unread_keys) == (True, (), ())
    bare = {k: v for k, v in config.items() if k != key}
    assert resolve(target, write(tmp_path / "bare", bare, shapes)).contract[axis] is True
    assert resolve(target, write(tmp_path / "denied", config, shapes)).contract.unsettled == (axis,)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("case", [CHAIN, DFLASH])
def test_reduced_vocabulary_needs_its_map(case: str, weights: bool, tmp_path: Path) -> None:
    golden = resolve(GOLDENS / case / "target", GOLDENS / case / "draft")
    shapes = {name: tensor.shape for name, tensor in golden.draft.tensors.items()}
    for missing in ("d2t", "lm_head.weight"):
        rest = {name: dims for name, dims in shapes.items() if name != missing}
        draft = write(tmp_path / missing, dict(golden.draft.config), rest if weights else None)
        if weights:
            with pytest.raises(InputError, match=f"no tensor {missing}"):
                resolve(GOLDENS / case / "target", draft)
        else:
            assert resolve(GOLDENS / case / "target", draft).contract["head.vocabulary_map"] == "offset"
    rows = shapes | {"lm_head.weight": (100, 64)}
    draft = write(tmp_path / "rows", dict(golden.draft.config), rows)
    assert "head.vocabulary" in resolve(GOLDENS / case / "target", draft).contract.unsettled


def test_map_of_floats_is_refused(tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", json.loads((GOLDENS / CHAIN / "draft" / "config.json").read_text()))
    data = (GOLDENS / CHAIN / "draft" / "model.safetensors").read_bytes()
    (draft / "model.safetensors").write_bytes(data.replace(b'"I64"', b'"F64"', 1))
    with pytest.raises(InputError, match="d2t: found dtype F64, expected I64, I32"):
        resolve(GOLDENS / CHAIN / "target", draft)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "number as type": (CHAIN, {"speculators_model_type": 3}, "found 3, expected a string"),
    "list as type": (CHAIN, {"speculators_model_type": ["eagle3"]}, "expected a string"),
    "empty type": (CHAIN, {"speculators_model_type": ""}, "expected a string"),
    "unknown type": (
        CHAIN,
        {"speculators_model_type": "hydra"},
        "found 'hydra', expected one of dflash, dspark",
    ),
    "MTP": (CHAIN, {"speculators_model_type": "mtp"}, "found 'mtp', not supported yet"),
    "P-EAGLE": (CHAIN, {"speculators_model_type": "PEagle"}, "found 'PEagle', not supported yet"),
    "DFlash 2": (DFLASH, {"speculators_model_type": "dflash2"}, "not supported yet"),
    "xpress": (DFLASH, {"speculators_model_type": "xpress"}, "not supported yet"),
    "algorithm": (
        DFLASH,
        {"speculators_model_type": "dspark"},
        "algorithm: found 'dflash', expected dspark as speculators_model_type says",
    ),
    "algorithm as number": (CHAIN, {"speculators_config/algorithm": 1}, "algorithm: found 1"),
    "no decoder": (CHAIN, {DECODER: DELETE}, "transformer_layer_config: missing, expected an object"),
    "decoder as text": (
        CHAIN,
        {DECODER: "qwen3"},
        "transformer_layer_config: found 'qwen3', expected an object",
    ),
    "decoder type": (
        CHAIN,
        {f"{DECODER}/model_type": "gemma3"},
        "found 'gemma3', expected one of qwen3, llama",
    ),
    "decoder type as list": (CHAIN, {f"{DECODER}/model_type": []}, "model_type: found []"),
    "MLP biases": (CHAIN, {f"{DECODER}/mlp_bias": True}, "mlp_bias: found true, expected false"),
    "deployment as list": (CHAIN, {"speculators_config": [1]}, "speculators_config: found [1]"),
    "methods as object": (CHAIN, {METHODS: {"greedy": 1}}, "expected a list of objects"),
    "methods of numbers": (CHAIN, {METHODS: [3]}, "expected a list of objects"),
    "no such method": (
        CHAIN,
        {"speculators_config/default_proposal_method": "tree"},
        "default_proposal_method: found 'tree', expected one of 'greedy'",
    ),
    "method as number": (
        CHAIN,
        {"speculators_config/default_proposal_method": 0},
        "found 0, expected a string",
    ),
    "no tokens": (CHAIN, asks_for(0), "speculative_tokens: found 0, expected a whole number from 1"),
    "negative tokens": (DFLASH, asks_for(-1), "speculative_tokens: found -1"),
    "true tokens": (DFLASH, asks_for(True), "speculative_tokens: found True"),
    "half a token": (DFLASH, asks_for(2.5), "speculative_tokens: found 2.5"),
    "absurd tokens": (CHAIN, asks_for(10**9), "expected a whole number from 1 to 4096"),
    "block size true": (DFLASH, {"block_size": True}, "block_size: found True"),
    "block size 0": (DFLASH, {"block_size": 0}, "found 0, expected a whole number >= 1"),
    "block size 1": (DFLASH, {"block_size": 1, **asks_for(1)}, "block_size: found width 1, expected 2"),
    "slot as text": (DFLASH, {"sample_from_anchor": "false"}, "sample_from_anchor: found 'false'"),
    "more tokens than rows": (
        DFLASH,
        {"sample_from_anchor": DELETE, **asks_for(12)},
        "a width of 8 for 12 proposals",
    ),
    "both norms": (
        CHAIN,
        {"fc_norm": True, "norm_before_fc": True},
        "fc_norm: found true beside norm_before_fc",
    ),
    "tap beyond the target": (DFLASH, {"aux_hidden_state_layer_ids": [2, 7]}, "found 7, expected 0 to 6"),
    "negative tap": (CHAIN, {"eagle_aux_hidden_state_layer_ids": [-1, 2]}, "found -1, expected 0 to 6"),
    "no tap": (CHAIN, {"eagle_aux_hidden_state_layer_ids": []}, "found no taps"),
    "repeated tap": (DFLASH, {"aux_hidden_state_layer_ids": [2, 2]}, "repeated taps [2, 2]"),
    "target width": (CHAIN, {"target_hidden_size": 32}, "target_hidden_size: found 32, expected 64"),
    "borrowed width": (
        DFLASH,
        {f"{DECODER}/hidden_size": 32},
        "found hidden size 32, expected the target's 64",
    ),
    "vocabulary": (CHAIN, {f"{DECODER}/vocab_size": 300}, "vocabulary mismatch, found 300, expected 256"),
    "larger draft vocabulary": (
        CHAIN,
        {"draft_vocab_size": 257},
        "found a draft vocabulary of 257, expected at most 256",
    ),
    "empty draft vocabulary": (CHAIN, {"draft_vocab_size": 0}, "draft_vocab_size: found 0"),
    "version as number": (
        DFLASH,
        {"sample_from_anchor": DELETE, "speculators_version": 0.6},
        "speculators_version: found 0.6",
    ),
    "confidence without Markov": (
        ANCHOR_FIRST,
        {"markov_rank": 0},
        "confidence_head_with_markov: found true beside markov_rank 0",
    ),
    "DeepSpec's second layer": (
        DEEPSPEC,
        {"num_hidden_layers": 2, "draft_num_hidden_layers": 2, "layer_types": DELETE},
        "found 2 draft layers, expected 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    case, changes, message = REFUSED[name]
    with pytest.raises(InputError) as caught:
        read(tmp_path, case, changes)
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert "draft" in text


def test_surplus_keys_are_unread(tmp_path: Path) -> None:
    changes = {
        "surprise": 1,
        "speculators_config/extra": 1,
        f"{DECODER}/surprise": 1,
        f"{DECODER}/rope_parameters/mrope_section": [4, 4],
        "embed_requires_grad": True,
        "speculators_config/verifier/name_or_path": "Qwen/Qwen3-8B",
    }
    assert set(read(tmp_path, CHAIN, changes).unread_keys) == {
        f"draft/config.json#/{key}" for key in ("surprise", "speculators_config/extra", f"{DECODER}/surprise")
    }


def test_chain_layers_after_the_first_are_plain(tmp_path: Path) -> None:
    contract = read(tmp_path, CHAIN, {f"{DECODER}/num_hidden_layers": 2})
    shapes = expected(contract)
    assert shapes["layers.0.self_attn.q_proj.weight"] == (64, 128)
    assert shapes["layers.1.self_attn.q_proj.weight"] == (64, 64)
    assert "layers.0.hidden_norm.weight" in shapes
    assert "layers.1.hidden_norm.weight" not in shapes
    assert "hidden_norm.weight" not in shapes
    assert shapes["d2t"] == (128,)
