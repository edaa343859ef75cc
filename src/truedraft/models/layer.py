"""One pre-norm transformer layer with fused projections: the building block of dense targets and drafters.

Knows nothing of caches, masks or taps: the caller attends between `project` and `finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.models.product import Product

Rotate = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LayerWeights:
    """Tensors of one layer; biases and head norms may be absent.

    `qkv` [(heads + 2 kv heads) * D, H], `o` [H, heads * D], `gate_up` [2 I, H], `down` [H, I], norms [H],
    `q_norm`, `k_norm` [D], `head_gate` [heads, H].
    """

    input_norm: Tensor
    qkv: Tensor
    o: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    qkv_bias: Tensor | None = None
    o_bias: Tensor | None = None
    gate_up_bias: Tensor | None = None
    down_bias: Tensor | None = None
    head_gate: Tensor | None = None


class Layer:
    """Attention and gated MLP around a residual stream of rows [N, H]."""

    def __init__(
        self,
        weights: LayerWeights,
        heads: int,
        kv_heads: int,
        head_dim: int,
        eps: float,
        activation: Callable[[Tensor], Tensor],
    ) -> None:
        self.weights = weights
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.eps, self.activation = eps, activation
        self.qkv = Product(weights.qkv, weights.qkv_bias)
        self.o = Product(weights.o, weights.o_bias)
        self.gate_up = Product(weights.gate_up, weights.gate_up_bias)
        self.down = Product(weights.down, weights.down_bias)
        self.products = (self.qkv, self.o, self.gate_up, self.down)
        self.head_norm: Tensor | None = None  # [heads + kv heads, D]
        if weights.q_norm is not None and weights.k_norm is not None:
            self.head_norm = torch.cat(
                [weights.q_norm.expand(heads, head_dim), weights.k_norm.expand(kv_heads, head_dim)]
            )

    def normed(self, x: Tensor) -> Tensor:
        """Rows after the input norm."""
        return F.rms_norm(x, self.weights.input_norm.shape, self.weights.input_norm, self.eps)

    def project(self, normed: Tensor, rotate: Rotate) -> tuple[Tensor, Tensor, Tensor]:
        """Query [heads, N, D], key and value [kv heads, N, D] of normed rows [N, qkv's width].

        `rotate` acts on [N, any heads, D].
        """
        qkv = self.qkv(normed).view(len(normed), -1, self.head_dim)
        both = qkv[:, : self.heads + self.kv_heads]
        if self.head_norm is not None:
            both = F.rms_norm(both, (self.head_dim,), eps=self.eps) * self.head_norm
        turned = rotate(both).transpose(0, 1)
        return (
            turned[: self.heads],
            turned[self.heads :],
            qkv[:, self.heads + self.kv_heads :].transpose(0, 1),
        )

    def gated(self, attended: Tensor, normed: Tensor) -> Tensor:
        """Attention output [heads, N, D] times softplus of a gate per head, read from the normed rows."""
        if self.weights.head_gate is None:
            return attended
        gate = F.softplus(F.linear(normed, self.weights.head_gate).float()).to(attended.dtype)
        return attended * gate.T[:, :, None]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Rows after attention output [heads, N, D] and the MLP."""
        w = self.weights
        x = x + self.o(attended.transpose(0, 1).reshape(len(x), -1))
        normed = F.rms_norm(x, w.mlp_norm.shape, w.mlp_norm, self.eps)
        gate, up = self.gate_up(normed).chunk(2, -1)
        return x + self.down(self.activation(gate) * up)
