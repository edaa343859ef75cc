"""Directories of founding pairs: a small random target, and a random drafter in a published layout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from founding_models import VOCABULARY, random_weights, small_config
from safetensors.torch import save_file

from truedraft.formats import resolve
from truedraft.formats.layouts import expected

CONFIGS = Path(__file__).parent.parent / "data" / "configs"
_VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 128,
    "num_position_embeddings": 16,
}
MULTIMODAL: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_5": ("Qwen3_5", {"vision_config": _VISION}),
    "qwen3_5_moe": ("Qwen3_5Moe", {"vision_config": _VISION}),
    "gemma4_text": ("Gemma4", {"vision_config": None, "audio_config": None}),
}
"""Families whose checkpoints nest the text model: transformers' class names, and the towers."""


def write_target(directory: Path, family: str, **changes: Any) -> Any:
    """Save a text-only random target; returns the model."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = small_config(family, **changes)
    model = random_weights(AutoModelForCausalLM.from_config(config, dtype=torch.float32))
    model.save_pretrained(directory)
    return model


def write_multimodal_target(directory: Path, family: str, **changes: Any) -> Any:
    """Save a random target as published: nested text config, prefixed names, with Qwen a vision tower."""
    import transformers

    kind, towers = MULTIMODAL[family]
    text = small_config(family, **changes).to_dict()
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(text_config=text, **towers)
    model = random_weights(getattr(transformers, f"{kind}ForConditionalGeneration")(config))
    model.save_pretrained(directory)
    return model


def published(name: str, changes: Mapping[str, Any], nested: str | None = None) -> dict[str, Any]:
    """A published config with other sizes. `nested`: the object that holds the backbone's sizes."""
    return resized(json.loads((CONFIGS / f"{name}.json").read_text()), changes, nested)


def resized(config: dict[str, Any], changes: Mapping[str, Any], nested: str | None = None) -> dict[str, Any]:
    """A config with other sizes of the keys that it has; arguments as of `published`."""
    for key, value in changes.items():
        place = config[nested] if nested and key in config[nested] else config
        assert key in place, key
        place[key] = value
    return config


def write_draft(
    directory: Path, target: Path, config: Mapping[str, Any], overrides: Sequence[str] = ()
) -> None:
    """Save a random drafter with this config: every tensor that its contract asks for."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(5)
    contract = resolve(target, directory, overrides).contract
    tensors = {}
    for name, shape in expected(contract).items():
        sizes = [size or 0 for size in shape]
        values = torch.randn(sizes, generator=generator)
        if name == "d2t":  # ids in the target's order, as offsets
            ids = torch.randperm(VOCABULARY, generator=generator)[: sizes[0]].sort().values
            tensors[name] = ids - torch.arange(sizes[0])
            continue
        tensors[name] = 1 + 0.2 * values if "norm" in name else values / max(sizes[-1], 1) ** 0.5
    save_file(tensors, directory / "model.safetensors")


def write_prompts(path: Path, prompts: Sequence[Sequence[int]]) -> Path:
    """A prompt file of token ids."""
    path.write_text("".join(json.dumps({"tokens": list(prompt)}) + "\n" for prompt in prompts))
    return path


SMALL = {
    "hidden_size": 128,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": VOCABULARY,
}
"""Sizes of a small drafter's backbone."""
