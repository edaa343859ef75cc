"""Laguna's DFlash: norms per tap, normed context, gated heads, fused projections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints import DELETE, TARGET, changed, refused_in_one_line, write

from truedraft.contract import Contract
from truedraft.formats import Resolution, expected, resolve

LAGUNA: dict[str, Any] = {
    "architectures": ["DFlashLagunaForCausalLM"],
    "model_type": "laguna",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "draft_vocab_size": 256,
    "rms_norm_eps": 1e-6,
    "gating": "per-head",
    "layer_types": ["sliding_attention"] * 2,
    "sliding_window": 16,
    "rope_theta": 500000,
    "eagle_aux_hidden_state_layer_ids": [2, 4, 8],
    "dflash_config": {
        "block_size": 8,
        "causal": True,
        "mask_token_id": 1,
        "num_target_layers": 8,
        "target_layer_ids": [1, 3, 7],
    },
}


def found(path: Path, changes: dict[str, Any], *overrides: str) -> Contract:
    target = write(path / "target", TARGET)
    return resolve(target, write(path / "config", changed(LAGUNA, changes)), overrides).contract


def fused(path: Path, prefix: str = "") -> dict[str, tuple[int, ...]]:
    """The tensors as Poolside's files name them."""
    tensors: dict[str, tuple[int, ...]] = {}
    for name, dims in expected(found(path, {})).items():
        shape = tuple(dim or 0 for dim in dims)
        if name.endswith(("k_proj.weight", "v_proj.weight")):
            continue
        if name.endswith("q_proj.weight"):
            name, shape = name.replace("q_proj", "qkv_proj"), (6 * 16 + 2 * 2 * 16, 64)
        tensors[prefix + name.replace("fc_norm", "aux_hidden_norms")] = shape
    return tensors


def loaded(
    path: Path, tensors: dict[str, tuple[int, ...]], changes: dict[str, Any] | None = None
) -> Resolution:
    draft = write(path / "draft", changed(LAGUNA, changes or {}), tensors)
    return resolve(write(path / "target", TARGET), draft)


def test_the_arithmetic_of_the_published_code(tmp_path: Path) -> None:
    contract = found(tmp_path, {})
    values = {
        "taps.layers": (1, 3, 7),
        "taps.state": ("residual",) * 3,
        "fusion.tap_norm": True,
        "fusion.concat_norm": False,
        "fusion.fc": True,
        "fusion.output_norm": True,
        "fusion.input_norm_on_context": True,
        "block.first_slot": "unused",
        "block.width": 8,
        "block.proposals": 7,
        "attention.causal": (True, True),
        "attention.window": (16, 16),
        "attention.window_rule": ("query", "query"),
        "attention.gate": ("softplus", "softplus"),
        "rope.theta": (5e5, 5e5),
        "rope.rotary_dims": (16, 16),
        "embedding.source": "target",
        "head.source": "target",
        "head.vocabulary_map": "none",
        "backbone.qk_norm": True,
        "backbone.activation": "silu",
        "backbone.attention_bias": False,
    }
    for axis, value in values.items():
        assert contract[axis] == value, axis
    assert (contract.family, contract.dialect) == ("dflash", "laguna")
    assert contract.unsettled == contract.conflicts == contract.unread_keys == ()


def test_sliding_layers_are_causal_without_a_key(tmp_path: Path) -> None:
    contract = found(tmp_path, {"dflash_config/causal": DELETE})
    source = contract.axes["attention.causal"].source
    assert contract["attention.causal"] == (True, True)
    assert source is not None
    assert source.kind == "family"


@pytest.mark.parametrize(
    "pointer",
    [
        "dflash_config/aux_hidden_state_layer_ids",
        "aux_hidden_state_layer_ids",
        "eagle_aux_hidden_state_layer_ids",
    ],
)
def test_the_second_list_of_taps_is_a_cross_check(pointer: str, tmp_path: Path) -> None:
    agreeing = found(tmp_path, {pointer: [2, 4, 8]})
    assert agreeing.conflicts == agreeing.unread_keys == ()
    (conflict,) = found(tmp_path, {pointer: [1, 3, 7]}).conflicts
    assert conflict.axis == "taps.layers"
    assert {claim.value for claim in conflict.sources} == {(1, 3, 7), (0, 2, 6)}
    assert found(tmp_path, {pointer: [1, 3, 7]})["taps.layers"] == (1, 3, 7)
    alone = {"dflash_config/target_layer_ids": DELETE, "eagle_aux_hidden_state_layer_ids": DELETE}
    assert found(tmp_path, alone | {pointer: [2, 4, 8]})["taps.layers"] == (1, 3, 7)
    assert found(tmp_path, alone).axes["taps.layers"].state == "unknown"


@pytest.mark.parametrize(("gating", "gate"), [(True, "softplus"), ("per-head", "softplus"), (False, "none")])
def test_gating(gating: object, gate: str, tmp_path: Path) -> None:
    contract = found(tmp_path, {"gating": gating})
    source = contract.axes["attention.gate"].source
    assert contract["attention.gate"] == (gate, gate)
    assert source is not None
    assert source.where == "draft/config.json#/gating"
    assert ("layers.1.self_attn.g_proj.weight" in expected(contract)) is (gate == "softplus")


@pytest.mark.parametrize("prefix", ["", "model."])
def test_fused_projections_are_slices_of_one_tensor(prefix: str, tmp_path: Path) -> None:
    resolution = loaded(tmp_path, fused(tmp_path, prefix))
    assert resolution.contract.unsettled == resolution.contract.unread_keys == ()
    assert {n: r.shape for n, r in resolution.tensors.items()} == expected(resolution.contract)
    own = f"{prefix}layers.1.self_attn.qkv_proj.weight"
    rows = {"q": (0, 96), "k": (96, 128), "v": (128, 160)}
    for part, here in rows.items():
        ref = resolution.tensors[f"layers.1.self_attn.{part}_proj.weight"]
        assert (ref.name, ref.rows) == (own, here)
        assert str(ref) == f"model.safetensors#{own}[{here[0]}:{here[1]}]"
    assert resolution.tensors["fc_norm.2.weight"].name == f"{prefix}aux_hidden_norms.2.weight"
    assert resolution.tensors["fc.weight"].rows is None


def test_separate_projections_do_as_well(tmp_path: Path) -> None:
    tensors = {n: tuple(d or 0 for d in dims) for n, dims in expected(found(tmp_path, {})).items()}
    assert loaded(tmp_path, tensors).contract.unsettled == ()


def test_a_fused_mlp_is_split_in_halves(tmp_path: Path) -> None:
    tensors = {n: s for n, s in fused(tmp_path).items() if "gate_proj" not in n and "up_proj" not in n}
    both = {f"layers.{i}.mlp.gate_up_proj.weight": (96, 64) for i in range(2)}
    found_ = loaded(tmp_path, tensors | both)
    assert found_.tensors["layers.0.mlp.gate_proj.weight"].rows == (0, 48)
    assert found_.tensors["layers.0.mlp.up_proj.weight"].rows == (48, 96)


def test_tensors_and_config_that_disagree(tmp_path: Path) -> None:
    tensors = {n: s for n, s in fused(tmp_path).items() if "aux_hidden_norms" not in n}
    assert loaded(tmp_path, tensors).contract["fusion.tap_norm"] is False
    ungated = {n: s for n, s in fused(tmp_path).items() if "g_proj" not in n}
    (conflict,) = loaded(tmp_path, ungated).contract.conflicts
    assert conflict.axis == "attention.gate"


QKV = "layers.0.self_attn.qkv_proj.weight"
BROKEN: dict[str, tuple[dict[str, tuple[int, ...] | None], str]] = {
    "odd rows": ({QKV: (161, 64)}, f"#{QKV}: found shape [161, 64], expected 96 query rows"),
    "too few rows": ({QKV: (96, 64)}, f"#{QKV}: found shape [96, 64], expected 96 query rows"),
    "scalar": ({QKV: ()}, f"#{QKV}: found shape []"),
    "narrow": ({QKV: (160, 32)}, f"#{QKV}[0:96]: found shape [96, 32], expected [96, 64]"),
    "no output projection": (
        {"layers.0.self_attn.o_proj.weight": None},
        "no tensor layers.0.self_attn.o_proj.weight of two axes, expected one beside qkv_proj",
    ),
    "both": ({"layers.0.self_attn.k_proj.weight": (32, 64)}, "found beside k_proj, expected one of the two"),
    "a norm is missing": ({"aux_hidden_norms.1.weight": None}, "no tensor fc_norm.1.weight"),
    "norm twice": ({"fc_norm.1.weight": (64,)}, "a second tensor for fc_norm.1.weight"),
    "gate per element": ({"layers.1.self_attn.g_proj.weight": (96, 64)}, "expected [6, 64]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tensors(name: str, tmp_path: Path) -> None:
    changes, message = BROKEN[name]
    tensors = {n: s for n, s in (fused(tmp_path) | changes).items() if s is not None}
    refused_in_one_line(lambda: loaded(tmp_path, tensors), message)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "gate per element": ({"gating": "per-element"}, "gating: found 'per-element', expected true, false or"),
    "gate as number": ({"gating": 1}, "gating: found 1, expected true, false or per-head"),
    "gate as list": ({"gating": ["per-head"]}, "gating: found ['per-head'], expected"),
    "draft vocabulary": ({"draft_vocab_size": 128}, "vocabulary mismatch, found 128, expected 256"),
    "captures beyond": ({"aux_hidden_state_layer_ids": [2, 4, 9], **{
        "dflash_config/target_layer_ids": DELETE, "eagle_aux_hidden_state_layer_ids": DELETE}},
        "a tap beyond the target, found 8"),
    "capture of nothing": ({"aux_hidden_state_layer_ids": [-1]}, "found -2, expected a whole number >= -1"),
    "dflash_config as text": ({"dflash_config": "x"}, "dflash_config: found 'x', expected an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    refused_in_one_line(lambda: found(tmp_path, changes), message)
