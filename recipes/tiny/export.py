"""The producers' on-disk formats: config.json and model.safetensors of target and drafters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from drafters.layouts import decoder_config, write_directory
from drafters.stack import Drafter, Target
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
    return decoder_config(shape, architecture, VOCAB_SIZE, EOS_ID, positions=1024)


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


def write_target(target: Target, folder: Path) -> None:
    """Write the target as a Qwen3ForCausalLM directory (fp16, tied head left out)."""
    weights = {f"model.{name}": tensor for name, tensor in target.state_dict().items()}
    write_directory(folder, target_config(), weights)
    generation = {"do_sample": False, "eos_token_id": EOS_ID, "pad_token_id": EOS_ID}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def write_drafter(drafter: Drafter, target: Target, folder: Path) -> None:
    """Write a drafter directory; DSpark also carries copies of the target's embedding."""
    weights = dict(drafter.state_dict())
    if drafter.spec.family == "dspark":
        weights["embed_tokens.weight"] = target.embed_tokens.weight
        weights["lm_head.weight"] = target.embed_tokens.weight
    write_directory(folder, drafter_config(drafter.spec), weights)


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
