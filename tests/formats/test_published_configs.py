"""Every config in tests/data/configs against a target of its size: expected axes, or the expected refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import CONFIGS, TARGET, write

from truedraft.contract import InputError
from truedraft.formats import resolve

QWEN3_36 = {"num_hidden_layers": 36, "vocab_size": 151936}
QWEN35 = {"vocab_size": 248320}

# file -> target, family, {axis: value, or None for unknown}, axes in conflict, unread keys
READABLE: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "z-lab__Qwen3.6-27B-DFlash": (
        QWEN35 | {"num_hidden_layers": 64, "hidden_size": 5120},
        "dflash",
        {
            "taps.layers": (1, 16, 31, 46, 61),
            "taps.state": ("residual",) * 5,
            "block.width": 16,
            "block.proposals": 15,
            "block.first_slot": "unused",
            "block.mask_token_id": 248070,
            "attention.window": (2048, 2048, 2048, 2048, None),
            "attention.window_rule": ("query",) * 5,
            "attention.causal": (True, True, True, True, False),
            "rope.theta": None,
            "backbone.norm_eps": None,
            "embedding.source": "target",
            "head.source": "target",
        },
    ),
    "sgl-project-SpecForge__qwen3.6-27b-dflash.training-config": (
        QWEN35 | {"num_hidden_layers": 64, "hidden_size": 5120},
        "dflash",
        {
            "attention.window": (2048, 2048, 2048, 2048, None),
            "attention.causal": (True, True, True, True, False),
            "rope.theta": (1e7,) * 5,
            "rope.scaling": (None,) * 5,
            "rope.attention_factor": (1.0,) * 5,
            "rope.rotary_dims": (128,) * 5,
            "backbone.norm_eps": 1e-6,
            "backbone.activation": "silu",
        },
    ),
    "sgl-project-SpecForge__qwen3-8b-dflash.training-config": (
        QWEN3_36 | {"hidden_size": 4096},
        "dflash",
        {
            "taps.layers": (1, 9, 17, 25, 33),
            "block.mask_token_id": 151669,
            "attention.window": (None,) * 5,
            "attention.causal": (False,) * 5,
            "attention.scale": (128**-0.5,) * 5,
        },
    ),
    "z-lab__Qwen3.5-9B-DFlash.legacy": (
        QWEN35 | {"num_hidden_layers": 32, "hidden_size": 4096},
        "dflash",
        {"taps.layers": (1, 8, 15, 22, 29), "rope.theta": (1e7,) * 5, "block.width": 16},
    ),
    "z-lab__Qwen3.5_or_3.6-35B-A3B-DFlash.legacy": (
        QWEN35 | {"num_hidden_layers": 40, "hidden_size": 2048},
        "dflash",
        {"backbone.layers": 8, "backbone.kv_heads": 4, "block.mask_token_id": 248070},
    ),
    "z-lab__Qwen3.5_or_3.6-35B-A3B-DFlash.rev-c69b185": (
        QWEN35 | {"num_hidden_layers": 40, "hidden_size": 2048},
        "dflash",
        {
            "taps.layers": (1, 6, 11, 16, 22, 27, 32, 37),
            "block.width": 16,
            "block.mask_token_id": 248077,
            "attention.window": (4096,) * 5 + (None,),
            "attention.causal": (True,) * 5 + (False,),
            "rope.theta": (1e7,) * 6,
        },
    ),
    "z-lab__Qwen3.5-122B-A10B-DFlash.rev-2274357": (
        QWEN35 | {"num_hidden_layers": 48, "hidden_size": 3072},
        "dflash",
        # use_sliding_window without layer_types or max_window_layers does not say which layers slide.
        {"attention.window": None, "attention.causal": None, "rope.theta": (1e7,) * 6},
    ),
    "z-lab__Qwen3.5-122B-A10B-DFlash.rev-6c7242c-april.partial": (
        QWEN35 | {"num_hidden_layers": 48, "hidden_size": 3072},
        "dflash",
        {"taps.layers": None, "taps.state": None, "attention.window": (2048, 2048, 2048, None)},
    ),
    "z-lab__Kimi-K2.5-DFlash.partial": (
        {"num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 163840},
        "dflash",
        {"block.width": 8, "rope.theta": None, "rope.attention_factor": (1.0,) * 6},
    ),
    "z-lab__gemma-4-31B-it-DFlash.partial": (
        {"model_type": "gemma4_text", "num_hidden_layers": 60, "hidden_size": 5376, "vocab_size": 262144},
        "dflash",
        {"embedding.scale": None, "head.softcap": 30.0, "block.mask_token_id": 4},
    ),
    "z-lab__Qwen3.5-27B-DFlash.september.partial": (
        QWEN35 | {"num_hidden_layers": 64, "hidden_size": 5120},
        "dflash",
        {
            "block.width": None,
            "block.proposals": None,
            "block.mask_token_id": None,
            "backbone.head_dim": None,
        },
    ),
    "z-lab__Qwen3.5-397B-A17B-DFlash.partial": (
        QWEN35 | {"num_hidden_layers": 60, "hidden_size": 4096},
        "dflash",
        {"taps.layers": (1, 9, 17, 25, 33, 41, 49, 57), "attention.window": (None,) * 6},
    ),
    "deepseek-ai__dspark_qwen3_4b_block7": (
        QWEN3_36 | {"hidden_size": 2560},
        "dspark",
        {
            "taps.layers": (1, 9, 17, 25, 33),
            "block.width": 7,
            "block.proposals": 7,
            "block.first_slot": "predicts_next",
            "attention.causal": (False,) * 5,
            "rope.theta": (1e6,) * 5,
            "embedding.source": "own",
            "head.source": "own",
            "head.softcap_order": "before_sequence_head",
            "markov.kind": "vanilla",
            "markov.rank": 256,
            "markov.previous": "previous_token",
            "confidence.input": "post_norm",
            "confidence.bias": True,
            "confidence.with_markov": True,
        },
    ),
    "deepseek-ai__dspark_qwen3_14b_block7.derived": (
        {"num_hidden_layers": 40, "hidden_size": 5120, "vocab_size": 151936},
        "dspark",
        {"taps.layers": (1, 10, 19, 28, 37), "backbone.heads": 40},
    ),
    "RedHatAI__Qwen3.6-35B-A3B-speculator.dspark": (
        QWEN35 | {"num_hidden_layers": 40, "hidden_size": 2048},
        "dspark",
        {
            "taps.layers": (1, 9, 19, 29, 36),
            "block.first_slot": "predicts_next",
            "block.width": 8,
            "block.proposals": 8,
            "attention.window": (2048,) * 5,
            "attention.window_rule": ("anchor",) * 5,
            "attention.causal": (True,) * 5,
            "head.vocabulary": 32000,
            "head.vocabulary_map": "offset",
            "head.source": "own",
            "embedding.source": "target",
            "rope.theta": None,
        },
    ),
    "RedHatAI__GLM-5.2-speculator.dspark.2026-07.partial": (
        {"num_hidden_layers": 78, "hidden_size": 6144, "vocab_size": 154880},
        "dspark",
        {
            "taps.layers": (7, 22, 38, 54, 69),
            "block.first_slot": "unused",
            "block.width": 8,
            "block.proposals": 7,
            "attention.window": (None,) * 5,
            "attention.causal": (False,) * 5,
            "head.vocabulary": 154880,
            "head.source": "target",
            "rope.theta": (8e6,) * 5,
        },
    ),
    "RedHatAI__GLM-5.2-or-5.3-speculator.dspark.3layer.partial": (
        {"num_hidden_layers": 78, "hidden_size": 6144, "vocab_size": 154880},
        "dspark",
        {
            "taps.layers": (1, 19, 38, 57, 74),
            "block.first_slot": "predicts_next",
            "block.proposals": 8,
            "attention.window": (2048,) * 3,
            "attention.causal": (True,) * 3,
            "backbone.activation": "silu",
        },
    ),
    "RedHatAI__GLM-5.3-Flash-speculator.dspark.partial": (
        {"num_hidden_layers": 48, "hidden_size": 4096, "vocab_size": 154880},
        "dspark",
        {"taps.layers": (19, 27, 31, 35, 39, 43), "block.proposals": 8, "rope.theta": (1e4,) * 5},
    ),
}

REFUSED = {
    "z-lab__gpt-oss-120b-DFlash.partial": "neither architectures nor model_type",
    "openbmb__MiniCPM5-2B-DSpark.partial": "neither architectures nor model_type",
}


def load(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    return config


@pytest.mark.parametrize("name", READABLE)
def test_published_config(name: str, tmp_path: Path) -> None:
    target, family, axes = READABLE[name]
    draft = write(tmp_path / "draft", load(name))
    contract = resolve(write(tmp_path / "target", TARGET | target), draft).contract
    assert contract.family == family
    for axis, value in axes.items():
        assert contract.axes[axis].state == ("unknown" if value is None else "value"), axis
        assert contract.get(axis) == value, axis
        assert contract.axes[axis].note or value is not None, axis
    assert contract.conflicts == ()
    assert contract.unread_keys == ()


@pytest.mark.parametrize("name", REFUSED)
def test_family_not_known_yet(name: str, tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", load(name))
    with pytest.raises(InputError, match=f"unknown family: .*{REFUSED[name]}.*; known: .*z-lab DFlash"):
        resolve(write(tmp_path / "target", TARGET), draft)


def test_kimi_yarn_record(tmp_path: Path) -> None:
    target = {"num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 163840}
    draft = write(tmp_path / "draft", load("z-lab__Kimi-K2.5-DFlash.partial"))
    scaling = resolve(write(tmp_path / "target", TARGET | target), draft).contract["rope.scaling"][0]
    assert dict(scaling) == {
        "kind": "yarn",
        "factor": 64.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096.0,
    }


def test_every_config_resolves_or_is_refused_in_one_line(tmp_path: Path) -> None:
    target = write(tmp_path / "target", TARGET)
    for file in CONFIGS.glob("*.json"):
        draft = write(tmp_path / file.stem, file.read_text())
        try:
            resolve(target, draft)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
