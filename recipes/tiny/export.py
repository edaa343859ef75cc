"""The producers' on-disk formats: config.json and model.safetensors of target and drafters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from model import Drafter, Target
from settings import (
    DRAFTERS,
    EOS_ID,
    FULL,
    MASK_ID,
    PAIR,
    PROPOSALS,
    TARGET_SHAPE,
    VOCAB_SIZE,
    DrafterSpec,
    Shape,
)


def _common(shape: Shape, architecture: str) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "dtype": "float16",
        "eos_token_id": EOS_ID,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": 1024,
        "model_type": "qwen3",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pad_token_id": EOS_ID,
        "rms_norm_eps": shape.eps,
        "use_cache": True,
        "vocab_size": VOCAB_SIZE,
    }


def target_config() -> dict[str, Any]:
    """Return the target's config.json as transformers 5 writes it."""
    return {
        **_common(TARGET_SHAPE, "Qwen3ForCausalLM"),
        "layer_types": [FULL] * TARGET_SHAPE.layers,
        "max_window_layers": TARGET_SHAPE.layers,
        "rope_parameters": {"rope_theta": TARGET_SHAPE.theta, "rope_type": "default"},
        "sliding_window": None,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
    }


def drafter_config(spec: DrafterSpec) -> dict[str, Any]:
    """Return a drafter's config.json in the generation its producer wrote."""
    windowed = spec.sliding_window is not None
    config = {
        **_common(spec.shape, "DFlashDraftModel"),
        "layer_types": list(spec.layer_types),
        "max_window_layers": 0 if windowed else spec.shape.layers,
        "num_target_layers": TARGET_SHAPE.layers,
        "sliding_window": spec.sliding_window,
        "tie_word_embeddings": False,
        "use_sliding_window": windowed,
    }
    nested = {"mask_token_id": MASK_ID, "target_layer_ids": list(spec.taps)}
    if spec.name == "dflash-full":
        flat_rope = {"rope_theta": spec.shape.theta, "rope_scaling": None}
        return {**config, "block_size": spec.width, "dflash_config": nested, **flat_rope}
    config["rope_parameters"] = {"rope_theta": spec.shape.theta, "rope_type": "default"}
    if spec.family == "dflash":
        return {**config, "dflash_config": {"block_size": spec.width, **nested}}
    return {
        **config,
        **nested,
        "architectures": ["Qwen3DSparkModel"],
        "block_size": PROPOSALS,
        "confidence_head_with_markov": True,
        "enable_confidence_head": True,
        "markov_head_type": "vanilla",
        "markov_rank": spec.markov_rank,
        "num_anchors": 512,
    }


def _write(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(config.items())), indent=2)
    (folder / "config.json").write_text(text + "\n")
    half = {name: tensor.detach().half().clone() for name, tensor in weights.items()}
    save_file(half, str(folder / "model.safetensors"), metadata={"format": "pt"})


def write_target(target: Target, folder: Path) -> None:
    """Write the target as a Qwen3ForCausalLM directory (fp16, tied head left out)."""
    weights = {f"model.{name}": tensor for name, tensor in target.state_dict().items()}
    _write(folder, target_config(), weights)
    generation = {"do_sample": False, "eos_token_id": EOS_ID, "pad_token_id": EOS_ID}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def write_drafter(drafter: Drafter, target: Target, folder: Path) -> None:
    """Write a drafter directory; DSpark also carries copies of the target's embedding."""
    weights = dict(drafter.state_dict())
    if drafter.spec.family == "dspark":
        weights["embed_tokens.weight"] = target.embed_tokens.weight
        weights["lm_head.weight"] = target.embed_tokens.weight
    _write(folder, drafter_config(drafter.spec), weights)


def load_target(folder: Path = PAIR / "target") -> Target:
    """Load the shipped fp16 target as fp32."""
    target = Target(TARGET_SHAPE, VOCAB_SIZE)
    weights = load_file(str(folder / "model.safetensors"))
    target.load_state_dict({k.removeprefix("model."): v.float() for k, v in weights.items()})
    return target.eval().requires_grad_(False)


def load_drafter(name: str, folder: Path | None = None) -> Drafter:
    """Load a shipped fp16 drafter as fp32."""
    drafter = Drafter(DRAFTERS[name], VOCAB_SIZE, TARGET_SHAPE.hidden)
    weights = load_file(str((folder or PAIR / name) / "model.safetensors"))
    kept = {k: v.float() for k, v in weights.items() if k not in BORROWED}
    drafter.load_state_dict(kept)
    return drafter.eval().requires_grad_(False)


BORROWED = ("embed_tokens.weight", "lm_head.weight")
torch.set_num_threads(1)
