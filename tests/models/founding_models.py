"""Small random models of every architecture with a stateful target, and their weights made to matter.

Sizes are the smallest that keep the structure: every kind of layer twice or with a neighbour of another kind,
windows, chunks and top-k smaller than the texts of the tests. Fresh models leave norms at 1, sinks and biases
at 0, and DeepSeek-V4's hash tables at expert 0: such weights hide mistakes.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch

VOCABULARY = 256
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "initializer_range": 0.08,  # 0.02 at this width gives almost flat logits
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
_GROUPED = {"num_key_value_heads": 2, "head_dim": 32}
_LINEAR: dict[str, Any] = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "full_attention_interval": 4,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}
_MROPE = {
    "rope_type": "default",
    "rope_theta": 10000000.0,
    "partial_rotary_factor": 0.25,
    "mrope_section": [2, 1, 1],
    "mrope_interleaved": True,
}
_EXPERTS = {"moe_intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2}
_SLIDING = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]

# 8 indexer heads: with fewer, ReLU scores tie at 0 and the selection follows the number of rows
_DEEPSEEK_V4: dict[str, Any] = {
    "num_hidden_layers": 5,
    "compress_ratios": [0, 4, 128, 4, 128],
    "compress_rate_hca": 16,
    "sliding_window": 16,
    "num_hash_layers": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "o_groups": 2,
    "o_lora_rank": 32,
    "moe_intermediate_size": 64,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "index_n_heads": 8,
    "index_head_dim": 32,
    "index_topk": 6,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
    "swiglu_limit": 10.0,
    "routed_scaling_factor": 1.5,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 256,
    },
}

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek_v4": ("DeepseekV4Config", _DEEPSEEK_V4),
    # as V4-Pro, without a layer of ratio 0: masks follow a compressed layer's window
    "deepseek_v4_pro": (
        "DeepseekV4Config",
        _DEEPSEEK_V4 | {"num_hidden_layers": 3, "compress_ratios": [128, 4, 128]},
    ),
    "qwen3_5": (
        "Qwen3_5TextConfig",
        {"intermediate_size": 256, "rope_parameters": _MROPE, **_GROUPED, **_LINEAR},
    ),
    "qwen3_5_moe": (
        "Qwen3_5MoeTextConfig",
        {"shared_expert_intermediate_size": 64, "rope_parameters": _MROPE, **_GROUPED, **_LINEAR, **_EXPERTS},
    ),
    "qwen3_next": (
        "Qwen3NextConfig",
        {
            "intermediate_size": 256,
            "shared_expert_intermediate_size": 64,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "rope_parameters": _ROPE | {"partial_rotary_factor": 0.25},
            **_GROUPED,
            **_LINEAR,
            **_EXPERTS,
        },
    ),
    # 32 indexer heads, the real number: with 8, selections at exact ties follow the number of rows
    "glm_moe_dsa": (
        "GlmMoeDsaConfig",
        {
            "intermediate_size": 256,
            "moe_intermediate_size": 64,
            "num_key_value_heads": 4,
            "n_shared_experts": 1,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "routed_scaling_factor": 2.5,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 32,
            "q_lora_rank": 64,
            "qk_rope_head_dim": 16,
            "qk_nope_head_dim": 16,
            "v_head_dim": 32,
            "index_topk": 24,
            "index_head_dim": 32,
            "index_n_heads": 32,
            "index_topk_freq": 2,
            "index_skip_topk_offset": 2,
            "rope_parameters": _ROPE,
        },
    ),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {
            "intermediate_size": 256,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "rope_parameters": _ROPE,
            **_GROUPED,
            **_EXPERTS,
        },
    ),
    "gpt_oss": (
        "GptOssConfig",
        {
            "intermediate_size": 64,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 16,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150000.0,
                "factor": 32.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 128,
            },
            **_GROUPED,
        },
    ),
    "gemma4_text": (
        "Gemma4TextConfig",
        {
            "intermediate_size": 256,
            "num_hidden_layers": 8,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "global_head_dim": 32,
            "sliding_window": 16,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": VOCABULARY,
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": False,
            "final_logit_softcapping": 30.0,
            "layer_types": _SLIDING * 2,
        },
    ),
    "gemma4_moe": (
        "Gemma4TextConfig",
        {
            "intermediate_size": 128,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "global_head_dim": 32,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "sliding_window": 16,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "num_experts": 8,
            "top_k_experts": 2,
            "moe_intermediate_size": 64,
            "layer_types": _SLIDING,
        },
    ),
}
FAMILIES = tuple(CONFIGS)


def small_config(family: str, **changes: Any) -> Any:
    """The small config of a family as transformers' config object."""
    import transformers

    kind, own = CONFIGS[family]
    return getattr(transformers, kind)(**copy.deepcopy(_COMMON | own | changes))


def random_weights(model: Any, seed: int = 1) -> Any:
    """The model with its trivial weights and buffers made random, in place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1 or "position_bias" in name or "sinks" in name or name.endswith("_hc.base"):
                weight.add_(torch.randn(weight.shape, generator=generator) * 0.2)
        for name, buffer in model.named_buffers():
            if name.endswith("tid2eid"):
                experts = model.config.n_routed_experts
                rows = [torch.randperm(experts, generator=generator) for _ in range(buffer.shape[0])]
                buffer.copy_(torch.stack(rows)[:, : buffer.shape[1]])
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.05)
            if name.endswith("layer_scalar"):
                buffer.fill_(0.9)
    return model.eval()


@cache
def small_model(family: str) -> Any:
    """A random fp32 model of a family; shared by the tests of a process, so leave it as it is."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return random_weights(AutoModelForCausalLM.from_config(small_config(family), dtype=torch.float32))


def text(length: int, seed: int = 0) -> list[int]:
    """Random tokens, neither padding nor stop."""
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randint(2, VOCABULARY, (length,), generator=generator).tolist()
