"""A small DeepSeek-V4 checkpoint with stages inside: its config, and names and shapes of its tensors."""

from __future__ import annotations

import json
from typing import Any

from checkpoints import CONFIGS

FLASH = json.loads((CONFIGS / "deepseek-ai__DeepSeek-V4-Flash-DSpark.partial.json").read_text())

SMALL: dict[str, Any] = {
    **FLASH,
    "hidden_size": 32,
    "moe_intermediate_size": 12,
    "vocab_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "head_dim": 16,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 10,
    "o_lora_rank": 6,
    "o_groups": 2,
    "n_routed_experts": 5,
    "num_experts_per_tok": 2,
    "dspark_noise_token_id": 1,
    "dspark_target_layer_ids": [1, 2, 3],
    "dspark_markov_rank": 8,
    "compress_ratios": [0, 0, 4, 128, 0, 0],
}
"""Two stages behind four layers."""

Shapes = dict[str, tuple[int, ...]]


def stage_shapes() -> Shapes:
    """Shapes of `SMALL`'s tensors, by hand from the published names."""
    out: Shapes = {
        "mtp.0.main_proj.weight": (32, 96),
        "mtp.0.main_norm.weight": (32,),
        "mtp.1.norm.weight": (32,),
        "mtp.1.hc_head_fn": (4, 128),
        "mtp.1.hc_head_base": (4,),
        "mtp.1.hc_head_scale": (1,),
        "mtp.1.markov_head.markov_w1.weight": (64, 8),
        "mtp.1.markov_head.markov_w2.weight": (64, 8),
        "mtp.1.confidence_head.proj.weight": (1, 40),
    }
    for stage in (0, 1):
        own: Shapes = {
            "attn_norm.weight": (32,),
            "ffn_norm.weight": (32,),
            "attn.wq_a.weight": (10, 32),
            "attn.q_norm.weight": (10,),
            "attn.wq_b.weight": (64, 10),
            "attn.wkv.weight": (16, 32),
            "attn.kv_norm.weight": (16,),
            "attn.attn_sink": (4,),
            "attn.wo_a.weight": (12, 32),
            "attn.wo_b.weight": (32, 12),
            "ffn.gate.weight": (5, 32),
            "ffn.gate.bias": (5,),
        }
        for part in ("attn", "ffn"):
            own |= {f"hc_{part}_fn": (24, 128), f"hc_{part}_base": (24,), f"hc_{part}_scale": (3,)}
        for expert in (*(f"experts.{n}" for n in range(5)), "shared_experts"):
            own |= {f"ffn.{expert}.w{n}.weight": (32, 12) if n == 2 else (12, 32) for n in (1, 2, 3)}
        out |= {f"mtp.{stage}.{name}": shape for name, shape in own.items()}
    return out
