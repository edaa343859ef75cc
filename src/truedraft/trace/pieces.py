"""A drafter taken apart: each step of its forward by itself, to be fed with an engine's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import CHAIN_FAMILIES, Contract
from truedraft.models.draft_layer import draft_layer
from truedraft.models.embedding import Embedding
from truedraft.models.fusion import Fusion
from truedraft.models.head import Head
from truedraft.models.readout import Readout
from truedraft.models.rope import RotaryTable

NO_NORM, ONES = -1, -2


@dataclass(frozen=True)
class Twist:
    """A fault that no axis expresses.

    `norm_of`: the layer whose k_norm is used, `NO_NORM`, or `ONES` as its weight. `shift`: of positions.
    `rows`: context rows too many, or too few. `rotated`: whether keys are. `cached`: what attention finds in
    rows that a cache brought: `written` as they should be, `hidden`, or `zero`.
    """

    norm_of: int | None = None
    shift: int = 0
    rows: int = 0
    rotated: bool = True
    cached: Literal["written", "hidden", "zero"] = "written"


PLAIN = Twist()


class Pieces:
    """The steps of a dense drafter of a settled contract.

    `weights`: canonical names to tensors; `embedding`, `head` [V, H]: the target's.
    """

    def __init__(
        self, contract: Contract, weights: Mapping[str, Tensor], embedding: Tensor, head: Tensor
    ) -> None:
        self.contract = contract
        self.chain = contract.family in CHAIN_FAMILIES
        self.fusion = Fusion(contract, weights)
        self.embedding = Embedding(contract, weights, embedding)
        self.layers = [draft_layer(contract, weights, i) for i in range(contract["backbone.layers"])]
        self.rope = RotaryTable(contract, embedding.device)
        self.head = Head(contract, weights, head) if self.chain else Readout(contract, weights, head)
        self._eps: float = contract["backbone.norm_eps"]
        self._final_norm = weights["norm.weight"]
        self._feature_norm = weights["layers.0.hidden_norm.weight"] if self.chain else None

    def context(
        self, layer: int, features: Tensor, positions: Tensor, twist: Twist = PLAIN
    ) -> tuple[Tensor, Tensor]:
        """Keys and values [n, kv heads, D] of a block drafter's context rows, from `fc`'s output [n, H]."""
        own = self.layers[layer]
        rows = self.fusion.finish(features)
        if self.contract["fusion.input_norm_on_context"]:
            rows = own.normed(rows)
        start = own.heads * own.head_dim
        bias = own.weights.qkv_bias
        kv = F.linear(rows, own.weights.qkv[start:], None if bias is None else bias[start:])
        keys, values = kv.view(len(rows), 2, own.kv_heads, own.head_dim).unbind(1)
        return self._finished(layer, keys, positions, twist), values

    def project(
        self, layer: int, entering: Tensor, positions: Tensor, features: Tensor | None, twist: Twist = PLAIN
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value [n, heads, D] of rows, from what enters the layer [n, H].

        A chain's first layer takes embeddings and `features` side by side.
        """
        own = self.layers[layer]
        inputs = own.normed(entering)
        if self.chain and layer == 0:
            assert features is not None
            inputs = torch.cat([inputs, self._normed_feature(features)], -1)
        turn = self._turn(layer, positions + twist.shift) if twist.rotated else _unturned
        query, key, value = (part.transpose(0, 1) for part in own.project(inputs, turn))
        if twist.norm_of is not None:
            start = own.heads * own.head_dim
            rows = slice(start, start + own.kv_heads * own.head_dim)
            bias = own.weights.qkv_bias
            raw = F.linear(inputs, own.weights.qkv[rows], None if bias is None else bias[rows])
            key = self._finished(layer, raw.view(key.shape), positions, twist)
        return query, key, value

    def _finished(self, layer: int, keys: Tensor, positions: Tensor, twist: Twist) -> Tensor:
        """Keys [n, kv heads, D] of rows at these positions, normed and rotated."""
        other = twist.norm_of is not None and twist.norm_of >= 0
        norm = self.layers[twist.norm_of or 0 if other else layer].weights.k_norm
        if norm is not None and twist.norm_of != NO_NORM:
            weight = None if twist.norm_of == ONES else norm
            keys = F.rms_norm(keys, keys.shape[-1:], weight, self._eps)
        return self._turn(layer, positions + twist.shift)(keys) if twist.rotated else keys

    def finish(self, layer: int, entering: Tensor, attended: Tensor, features: Tensor | None) -> Tensor:
        """The residual stream [n, H] behind a layer, from its attention's output [n, heads, D]."""
        own, stream = self.layers[layer], entering
        if self.chain and layer == 0:
            assert features is not None
            before = self.contract["chain.norm_before_residual"]
            stream = self._normed_feature(features) if before else features
        heads = attended.transpose(0, 1)
        return own.finish(stream, heads if self.chain else own.gated(heads, own.normed(entering)))

    def normed(self, stream: Tensor) -> Tensor:
        """Behind the final norm."""
        return F.rms_norm(stream, self._final_norm.shape, self._final_norm, self._eps)

    def _normed_feature(self, features: Tensor) -> Tensor:
        assert self._feature_norm is not None
        return F.rms_norm(features, self._feature_norm.shape, self._feature_norm, self._eps)

    def _turn(self, layer: int, positions: Tensor) -> Callable[[Tensor], Tensor]:
        """Rotates [n, heads, D] of rows at these positions."""
        cos, sin = self.rope.at(positions, int(positions.abs().max()))
        return partial(self.rope.rotate, cos=cos[layer, :, None], sin=sin[layer, :, None])


def _unturned(heads: Tensor) -> Tensor:
    return heads


def attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """[n, heads, D] of query [n, heads, D] over keys and values [m, kv heads, D]; `mask` bool [n, m]."""
    out = F.scaled_dot_product_attention(
        query.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        attn_mask=mask,
        scale=scale,
        enable_gqa=True,
    )
    return out[0].transpose(0, 1)
