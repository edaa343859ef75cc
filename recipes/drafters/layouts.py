"""What config.json and model.safetensors of all drafters have in common."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from drafters.shapes import Shape


def decoder_config(
    shape: Shape, architecture: str, vocab_size: int, eos_id: int, positions: int
) -> dict[str, Any]:
    """Return the keys of a Qwen3 decoder as transformers 5 writes them, without layers and rope."""
    return {
        "architectures": [architecture],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "dtype": "float16",
        "eos_token_id": eos_id,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": positions,
        "model_type": "qwen3",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pad_token_id": eos_id,
        "rms_norm_eps": shape.eps,
        "use_cache": True,
        "vocab_size": vocab_size,
    }


def write_directory(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write config.json and, in its `dtype`, model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(config.items())), indent=2)
    (folder / "config.json").write_text(text + "\n")
    dtype = getattr(torch, config["dtype"])
    rounded = {name: tensor.detach().to(dtype).clone() for name, tensor in weights.items()}
    path = folder / "model.safetensors"
    save_file(rounded, str(path), metadata={"format": "pt"})
    path.chmod(0o644)
