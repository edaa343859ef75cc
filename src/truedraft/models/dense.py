"""A fused forward for dense decoders (Qwen2, Qwen3, Llama), made from transformers' own loaded module.

Per token, transformers' module tree costs more than its arithmetic on small models. This does the same
arithmetic with fewer, larger products. `HFTarget` uses it only after comparing it with the module's own
forward on this very model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from truedraft.models.layer import Layer, LayerWeights
from truedraft.models.product import Product

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Attention of layer i over the cache: query [heads, N, D], key, value [kv heads, N, D] -> [heads, N, D]."""


class DenseForward:
    """The decoder stack of a transformers model on packed rows.

    The fused weights replace the module's own, which become views of them, so that nothing is held twice.
    Raises `AttributeError` if the module is not built as expected.
    """

    def __init__(self, model: Any) -> None:
        inner = model.model
        config = model.config
        heads, kv_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self._embed, self._final_norm, self._rotary = inner.embed_tokens, inner.norm, inner.rotary_emb
        self.windows: list[int | None] = [
            getattr(block.self_attn, "sliding_window", None) for block in inner.layers
        ]
        self.scales: list[float] = [float(block.self_attn.scaling) for block in inner.layers]
        self._layers = [
            Layer(
                _weights(block),
                heads,
                kv_heads,
                int(block.self_attn.head_dim),
                float(block.input_layernorm.variance_epsilon),
                block.mlp.act_fn,
            )
            for block in inner.layers
        ]

    def products(self) -> tuple[Product, ...]:
        """The products of all layers."""
        return tuple(product for layer in self._layers for product in layer.products)

    def __call__(
        self, tokens: Tensor, positions: Tensor, attend: Attend, taps: frozenset[int]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Final-norm hidden states [N, H] and the outputs [N, H] of the tapped layers (-1: embedding)."""
        x = self._embed(tokens)
        seen = {-1: x} if -1 in taps else {}
        cos, sin = (part[0, :, None] for part in self._rotary(x[None], positions[None]))

        def rotate(heads: Tensor) -> Tensor:
            low, high = heads.chunk(2, -1)
            turned: Tensor = heads * cos + torch.cat([-high, low], -1) * sin
            return turned

        for index, layer in enumerate(self._layers):
            query, key, value = layer.project(layer.normed(x), rotate)
            x = layer.finish(x, attend(index, query, key, value))
            if index in taps:
                seen[index] = x
        normed: Tensor = self._final_norm(x)
        return normed, seen


def _weights(block: Any) -> LayerWeights:
    attention, mlp = block.self_attn, block.mlp
    qkv, qkv_bias = _fuse(attention.q_proj, attention.k_proj, attention.v_proj)
    gate_up, gate_up_bias = _fuse(mlp.gate_proj, mlp.up_proj)
    return LayerWeights(
        input_norm=block.input_layernorm.weight.detach(),
        qkv=qkv,
        o=attention.o_proj.weight.detach(),
        mlp_norm=block.post_attention_layernorm.weight.detach(),
        gate_up=gate_up,
        down=mlp.down_proj.weight.detach(),
        q_norm=attention.q_norm.weight.detach() if hasattr(attention, "q_norm") else None,
        k_norm=attention.k_norm.weight.detach() if hasattr(attention, "k_norm") else None,
        qkv_bias=qkv_bias,
        o_bias=detached(attention.o_proj.bias),
        gate_up_bias=gate_up_bias,
        down_bias=detached(mlp.down_proj.bias),
    )


def detached(bias: Tensor | None) -> Tensor | None:
    """A bias without its gradient, or none."""
    return None if bias is None else bias.detach()


def _fuse(*modules: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Stack linear maps of the same input; the modules' weights become views of the stack."""
    fused = torch.cat([module.weight.data for module in modules])
    bias = None if modules[0].bias is None else torch.cat([module.bias.data for module in modules])
    start = 0
    for module in modules:
        end = start + module.weight.shape[0]
        module.weight.data = fused[start:end]
        if bias is not None:
            module.bias.data = bias[start:end]
        start = end
    return fused, bias
