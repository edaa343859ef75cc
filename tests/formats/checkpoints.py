"""Small checkpoint directories written without torch, for the reader tests."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from truedraft.contract import InputError

DATA = Path(__file__).parent.parent / "data"
CONFIGS = DATA / "configs"
GOLDENS = DATA / "goldens"

TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 8,
    "hidden_size": 64,
    "vocab_size": 256,
    "max_position_embeddings": 1024,
    "eos_token_id": 0,
    "tie_word_embeddings": False,
}

ZLAB: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "sliding_window": 16,
    "use_sliding_window": True,
    "rope_theta": 10000,
    "rope_scaling": None,
    "block_size": 8,
    "num_target_layers": 8,
    "dflash_config": {"mask_token_id": 1, "target_layer_ids": [1, 3, 5]},
}

DEEPSPEC: dict[str, Any] = {
    **{k: v for k, v in ZLAB.items() if k not in ("dflash_config", "rope_theta", "rope_scaling")},
    "architectures": ["Qwen3DSparkModel"],
    "layer_types": ["full_attention"] * 3,
    "sliding_window": None,
    "use_sliding_window": False,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "block_size": 7,
    "mask_token_id": 1,
    "target_layer_ids": [1, 3, 5],
    "markov_rank": 24,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
    "num_anchors": 512,
    "tie_word_embeddings": False,
}

SPECULATORS_DSPARK: dict[str, Any] = {
    "speculators_model_type": "dspark",
    "speculators_version": "0.9.0",
    "architectures": ["DSparkSpeculator"],
    "speculators_config": {
        "algorithm": "dspark",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 8}],
        "verifier": {"name_or_path": "target", "architectures": ["Qwen3ForCausalLM"]},
    },
    "block_size": 8,
    "sample_from_anchor": True,
    "aux_hidden_state_layer_ids": [2, 4, 6],
    "mask_token_id": 1,
    "draft_vocab_size": 256,
    "sliding_window_non_causal": False,
    "markov_rank": 24,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
    "transformer_layer_config": {
        k: v
        for k, v in DEEPSPEC.items()
        if k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    }
    | {
        "model_type": "qwen3",
        "num_hidden_layers": 3,
        "vocab_size": 256,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "layer_types": ["full_attention"] * 3,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}
"""An anchor-first DSpark drafter in the speculators format."""

DELETE = object()


def changed(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `config` with slash-separated pointers set, or removed where the value is `DELETE`."""
    out = copy.deepcopy(dict(config))
    for pointer, value in changes.items():
        *parents, last = pointer.split("/")
        node = out
        for name in parents:
            node = node.setdefault(name, {})
        if value is DELETE:
            node.pop(last, None)
        else:
            node[last] = value
    return out


def write(directory: Path, config: object, tensors: Mapping[str, tuple[int, ...]] | None = None) -> Path:
    """A checkpoint directory with this config and, if given, zero tensors of these shapes."""
    directory.mkdir(parents=True, exist_ok=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (directory / "config.json").write_text(text, encoding="utf-8")
    if tensors is not None:
        write_tensors(directory / "model.safetensors", tensors)
    return directory


def write_tensors(path: Path, tensors: Mapping[str, tuple[int, ...]], dtype: str = "F32") -> None:
    """A valid safetensors file of zeros (F32; a `d2t` is I64)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        size = 8 if name == "d2t" else 4
        for n in shape:
            size *= n
        kind = "I64" if name == "d2t" else dtype
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    raw(path, header, end)


def raw(path: Path, header: object, data: int, length: int | None = None) -> None:
    """A safetensors file with this header (object or bytes), `data` zero bytes, and a length field."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    count = len(text) if length is None else length
    path.write_bytes(count.to_bytes(8, "little") + text + bytes(data))


def refused_in_one_line(read: Callable[[], object], message: str) -> None:
    """`read` raises an `InputError` of one line that says `message`."""
    with pytest.raises(InputError) as caught:
        read()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
