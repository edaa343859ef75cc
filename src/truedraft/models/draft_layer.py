"""Layers of a drafter, built from its contract and canonical tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract
from truedraft.models.layer import Layer, LayerWeights

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


def draft_layer(contract: Contract, weights: Mapping[str, Tensor], index: int) -> Layer:
    """Draft layer `index`. `weights`: canonical names (`formats.layouts`) to tensors."""
    prefix = f"layers.{index}"

    def tensor(name: str) -> Tensor:
        return weights[f"{prefix}.{name}"]

    has_norm, has_bias = contract["backbone.qk_norm"], contract["backbone.attention_bias"]
    gated = contract["attention.gate"][index] != "none"
    fused = LayerWeights(
        input_norm=tensor("input_layernorm.weight"),
        qkv=torch.cat([tensor(f"self_attn.{which}_proj.weight") for which in "qkv"]),
        o=tensor("self_attn.o_proj.weight"),
        mlp_norm=tensor("post_attention_layernorm.weight"),
        gate_up=torch.cat([tensor("mlp.gate_proj.weight"), tensor("mlp.up_proj.weight")]),
        down=tensor("mlp.down_proj.weight"),
        q_norm=tensor("self_attn.q_norm.weight") if has_norm else None,
        k_norm=tensor("self_attn.k_norm.weight") if has_norm else None,
        qkv_bias=torch.cat([tensor(f"self_attn.{which}_proj.bias") for which in "qkv"]) if has_bias else None,
        o_bias=tensor("self_attn.o_proj.bias") if has_bias else None,
        head_gate=tensor("self_attn.g_proj.weight") if gated else None,
    )
    return Layer(
        fused,
        contract["backbone.heads"],
        contract["backbone.kv_heads"],
        contract["backbone.head_dim"],
        contract["backbone.norm_eps"],
        ACTIVATIONS[contract["backbone.activation"]],
    )
