"""The dense layers of DFlash and DSpark: pre-norm attention and a gated MLP around one residual stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract
from truedraft.models.draft_layer import draft_layer
from truedraft.models.fusion import Fusion
from truedraft.models.product import Product
from truedraft.models.rope import RotaryTable

if TYPE_CHECKING:
    from truedraft.models.backbone import Attend


class DenseLayers:
    """A `Backbone` of dense layers. `weights`: canonical names (`formats.layouts`) to tensors."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor], device: torch.device) -> None:
        self._kv_heads: int = contract["backbone.kv_heads"]
        self._head_dim: int = contract["backbone.head_dim"]
        self._eps: float = contract["backbone.norm_eps"]
        self._input_norm_on_context: bool = contract["fusion.input_norm_on_context"]
        self._rope = RotaryTable(contract, device)
        self._fusion = Fusion(contract, weights)
        self._final_norm = weights["norm.weight"]
        self._layers = [draft_layer(contract, weights, i) for i in range(contract["backbone.layers"])]
        self.cache_shape = (len(self._layers), self._kv_heads, self._head_dim)
        # keys and values of context rows, for all layers in one product
        queries = contract["backbone.heads"] * self._head_dim
        self._context_kv = torch.stack([layer.weights.qkv[queries:] for layer in self._layers])
        self._context_product = Product(self._context_kv.flatten(0, 1))
        biases = [x.weights.qkv_bias[queries:] for x in self._layers if x.weights.qkv_bias is not None]
        self._context_bias = torch.stack(biases)[:, None] if biases else None  # [layers, 1, 2 kv heads * D]
        norms = [layer.weights.k_norm for layer in self._layers if layer.weights.k_norm is not None]
        self._context_norm = torch.stack(norms)[:, None, None] if norms else None  # [layers, 1, 1, D]

    def context_rows(self, taps: Tensor, positions: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, kv heads, n, D] of taps [n, ΣH] at int64 positions below `end`."""
        context = self._fusion(taps)
        if self._input_norm_on_context:
            normed = torch.stack([self._norm(context, layer.weights.input_norm) for layer in self._layers])
            kv = torch.bmm(normed, self._context_kv.transpose(1, 2))
        else:
            kv = self._context_product(context).view(len(context), len(self._layers), -1)
            kv = kv.transpose(0, 1)
        if self._context_bias is not None:
            kv = kv + self._context_bias
        kv = kv.reshape(len(self._layers), len(context), 2, self._kv_heads, self._head_dim)
        keys, values = kv.permute(2, 0, 3, 1, 4)  # each [L, kv heads, rows, D]
        if self._context_norm is not None:
            keys = F.rms_norm(keys, (self._head_dim,), eps=self._eps) * self._context_norm
        cos, sin = self._rope.at(positions, end)
        return self._rope.rotate(keys, cos[:, None], sin[:, None]), values

    def __call__(self, x: Tensor, positions: Tensor, largest: int, attend: Attend) -> Tensor:
        """Final-norm hidden states [N, H] of embeddings [N, H] at positions of at most `largest` in size."""
        cos, sin = self._rope.at(positions, largest)
        for index, layer in enumerate(self._layers):
            rotate = partial(self._rope.rotate, cos=cos[index, :, None], sin=sin[index, :, None])
            normed = layer.normed(x)
            attended = attend(index, *layer.project(normed, rotate))
            x = layer.finish(x, layer.gated(attended, normed))
        return self._norm(x, self._final_norm)

    def products(self) -> tuple[Product, ...]:
        """The products that a kernel may compute."""
        context = () if self._input_norm_on_context else (self._context_product,)
        return (self._fusion.product, *context, *(p for layer in self._layers for p in layer.products))

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)
