"""Muse Glimmer's assistant: the same contract as the same weights in z-lab's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints import DELETE, GOLDENS, TARGET, changed, refused_in_one_line, write

from truedraft.contract import Contract, InputError, diff
from truedraft.formats import expected, resolve

ASSISTANT: dict[str, Any] = {
    "architectures": ["MuseGlimmerAssistantModel"],
    "model_type": "muse_glimmer_assistant",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 16,
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
    "block_size": 8,
    "mask_token_id": 1,
    "target_layer_ids": [1, 3, 5],
    "attention_dropout": 0,
}


def found(path: Path, changes: dict[str, Any], *overrides: str) -> Contract:
    target = write(path / "target", TARGET)
    return resolve(target, write(path / "config", changed(ASSISTANT, changes)), overrides).contract


def test_the_golden_pair_means_what_its_z_lab_twin_means() -> None:
    here = resolve(GOLDENS / "dflash_hf523" / "target", GOLDENS / "dflash_hf523" / "draft")
    twin = resolve(GOLDENS / "dflash_zlab_full" / "target", GOLDENS / "dflash_zlab_full" / "draft")
    assert diff(here.contract, twin.contract) == ()
    assert here.contract.hash == twin.contract.hash
    assert here.contract.dialect == "transformers"
    assert here.contract.unsettled == here.contract.unread_keys == here.contract.conflicts == ()
    assert {n: r.shape for n, r in here.tensors.items()} == {n: r.shape for n, r in twin.tensors.items()}
    assert here.tensors["fc.weight"].name == "encoder.fc.weight"
    assert here.tensors["hidden_norm.weight"].name == "encoder.output_norm_enc.weight"
    assert here.contract.axes["backbone.layers"].state == "value"


def test_blocks_are_bidirectional_in_sliding_layers_too(tmp_path: Path) -> None:
    contract = found(tmp_path, {})
    assert contract["attention.causal"] == (False, False)
    assert contract["block.first_slot"] == "unused"
    assert (contract["block.width"], contract["block.proposals"]) == (8, 7)
    assert (contract["embedding.source"], contract["head.source"]) == ("target", "target")
    assert contract["embedding.scale"] == 1.0
    assert contract["backbone.attention_bias"] is False
    assert contract.unsettled == ()
    assert contract.unread_keys == ()


def test_the_window_is_a_guess_since_transformers_disagrees_with_itself(tmp_path: Path) -> None:
    contract = found(tmp_path, {})
    assert contract["attention.window"] == (16, None)
    assert contract.inferred == ("attention.window",)
    assert found(tmp_path, {}, "attention.window[0]=17")["attention.window"] == (17, None)
    assert found(tmp_path, {"layer_types": ["full_attention"] * 2}).inferred == ()


def test_a_tap_of_the_last_layer_is_a_guess(tmp_path: Path) -> None:
    contract = found(tmp_path, {"target_layer_ids": [1, 7]})
    assert contract["taps.state"] == ("post_norm", "post_norm")
    assert "taps.state" in contract.inferred


@pytest.mark.parametrize(
    ("key", "axis"),
    [
        ("target_layer_ids", "taps.layers"),
        ("mask_token_id", "block.mask_token_id"),
        ("block_size", "block.width"),
        ("rope_parameters", "rope.theta"),
    ],
)
def test_class_defaults_are_not_taken_for_statements(key: str, axis: str, tmp_path: Path) -> None:
    assert found(tmp_path, {key: DELETE}).axes[axis].state == "unknown"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "mask id": ({"mask_token_id": 256}, "mask_token_id: found mask token id 256, expected a row"),
    "taps as text": (
        {"target_layer_ids": "1"},
        "target_layer_ids: found '1', expected a list of whole numbers",
    ),
    "repeated taps": ({"target_layer_ids": [1, 1]}, "found repeated taps [1, 1]"),
    "tap beyond": ({"target_layer_ids": [1, 8]}, "a tap beyond the target, found 8, expected -1 to 7"),
    "width": ({"hidden_size": 32}, "found hidden size 32, expected the target's 64"),
    "window": ({"sliding_window": 0}, "found 0, expected a whole number >= 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    refused_in_one_line(lambda: found(tmp_path, changes), message)


def test_missing_and_broken_encoder(tmp_path: Path) -> None:
    names = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}
    tensors = {}
    for name, dims in expected(found(tmp_path, {})).items():
        tensors[names.get(name, name)] = tuple(dim or 0 for dim in dims)
    draft = write(tmp_path / "draft", ASSISTANT, tensors)
    assert resolve(tmp_path / "target", draft).contract.unread_keys == ()
    write(tmp_path / "broken", ASSISTANT, tensors | {"encoder.fc.weight": (64, 128)})
    with pytest.raises(
        InputError, match=r"#encoder\.fc\.weight: found shape \[64, 128\], expected \[64, 192\]"
    ):
        resolve(tmp_path / "target", tmp_path / "broken")
    write(tmp_path / "twice", ASSISTANT, tensors | {"fc.weight": (64, 192)})
    with pytest.raises(InputError, match=r"a second tensor for fc\.weight, beside"):
        resolve(tmp_path / "target", tmp_path / "twice")
