"""Keys of a target's config that transformers would take to the end of the world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints import refused_in_one_line, write

from truedraft.formats._checkpoint import open_checkpoint
from truedraft.formats._target import read_target

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
BASE = {"num_hidden_layers": 4, "hidden_size": 8, "vocab_size": 16, "max_position_embeddings": 64}
SOUND: dict[str, dict[str, Any]] = {
    "deepseek_v4": {
        "compress_ratios": [0, 4, 128, 4, 0],
        "n_routed_experts": 4,
        "num_experts_per_tok": 4,
        "hc_sinkhorn_iters": 1000,
        "index_topk": 1,
        "num_hash_layers": 0,
    },
    "gemma4_text": {
        "layer_types": [SLIDING, SLIDING, SLIDING, FULL],
        "sliding_window": 1,
        "final_logit_softcapping": 30,
        "use_bidirectional_attention": "vision",
        "num_kv_shared_layers": 3,
        "num_experts": None,
        "top_k_experts": None,
    },
    "glm_moe_dsa": {
        "layer_types": ["indexed_attention"] * 4,
        "indexer_types": ["full", "shared"] * 2,
        "n_routed_experts": 8,
        "n_group": 4,
        "topk_group": 2,
    },
    "gpt_oss": {"layer_types": [SLIDING, FULL] * 2, "sliding_window": 16, "num_local_experts": 4},
    "qwen3_5_text": {"layer_types": [LINEAR] * 3 + [FULL]},
    "qwen3_next": {"num_experts": 0, "num_experts_per_tok": 10},
}
BAD: list[tuple[str, str, Any, str]] = [
    ("deepseek_v4", "hc_sinkhorn_iters", 10**6, "hc_sinkhorn_iters: found 1000000, expected 1 to 1000"),
    ("deepseek_v4", "hc_sinkhorn_iters", 0, "hc_sinkhorn_iters: found 0, expected 1 to 1000"),
    ("deepseek_v4", "compress_ratios", [0, 4, 7, 0], "compress_ratios/2: found 7, expected one of 0, 4, 128"),
    ("deepseek_v4", "compress_ratios", [0, 4], "compress_ratios: found 2 entries, expected 4, one per layer"),
    ("deepseek_v4", "num_experts_per_tok", 5, "found 5, expected 1 to 4 (n_routed_experts)"),
    ("deepseek_v4", "num_experts_per_tok", 0, "found 0, expected 1 to 4 (n_routed_experts)"),
    ("deepseek_v4", "index_topk", 0, "index_topk: found 0, expected a whole number >= 1"),
    ("deepseek_v4", "index_n_heads", 10**12, f"index_n_heads: found 1000000000000, expected 1 to {2**31}"),
    ("deepseek_v4", "hc_mult", "4", "hc_mult: found '4', expected a whole number"),
    ("gemma4_text", "sliding_window", 0, "sliding_window: found 0, expected a whole number >= 1"),
    ("gemma4_text", "sliding_window", None, "found null, expected the sliding layers' window"),
    ("gemma4_text", "final_logit_softcapping", -1.0, "found -1.0, expected a number > 0, or null"),
    ("gemma4_text", "final_logit_softcapping", 0, "found 0, expected a number > 0, or null"),
    ("gemma4_text", "num_kv_shared_layers", 4, "num_kv_shared_layers: found 4, expected 0 to 3"),
    ("gemma4_text", "use_bidirectional_attention", "all", "whose rows see later ones cannot verify drafts"),
    ("gemma4_text", "use_bidirectional_attention", True, "use_bidirectional_attention: found True"),
    ("glm_moe_dsa", "indexer_types", ["full"] * 2, "indexer_types: found 2 entries, expected 4"),
    ("glm_moe_dsa", "n_group", 3, "n_group: found 3, expected a divisor of 8 (n_routed_experts)"),
    ("glm_moe_dsa", "topk_group", 5, "topk_group: found 5, expected 1 to 4 (n_group)"),
    ("gpt_oss", "layer_types", ["chunked_attention"] * 4, "layer_types/0: found 'chunked_attention'"),
    ("qwen3_5_text", "layer_types", [LINEAR] * 3 + ["zzz"], "layer_types/3: found 'zzz', expected one of"),
]


def read(directory: Path, model_type: str, nested: bool = False, **changes: Any) -> Any:
    config: dict[str, Any] = {"model_type": model_type, **BASE, **SOUND[model_type], **changes}
    if nested:  # as the multimodal checkpoints have it
        del config["model_type"]
        config = {"model_type": model_type.removesuffix("_text"), "text_config": config}
    return read_target(open_checkpoint("target", write(directory / "target", config)))


@pytest.mark.parametrize("model_type", SOUND)
def test_what_a_model_can_have_is_read(model_type: str, tmp_path: Path) -> None:
    assert read(tmp_path, model_type).layers == 4


@pytest.mark.parametrize(("model_type", "key", "value", "message"), BAD)
def test_what_no_model_can_have_is_one_line(
    model_type: str, key: str, value: Any, message: str, tmp_path: Path
) -> None:
    refused_in_one_line(lambda: read(tmp_path, model_type, **{key: value}), f"target/config.json#/{key}")
    refused_in_one_line(lambda: read(tmp_path, model_type, **{key: value}), message)


def test_nested_configs_are_checked_below_text_config(tmp_path: Path) -> None:
    message = "target/config.json#/text_config/sliding_window: found 0"
    refused_in_one_line(lambda: read(tmp_path, "gemma4_text", nested=True, sliding_window=0), message)


def test_other_model_types_are_left_alone(tmp_path: Path) -> None:
    config = {"model_type": "llama", **BASE, "index_topk": 0, "compress_ratios": [3]}
    assert read_target(open_checkpoint("target", write(tmp_path / "target", config))).layers == 4
