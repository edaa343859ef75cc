"""DeepSeek-V4's attention of a sliding layer: one latent row is key and value of all heads.

The value is rotated with the key, so that the heads' outputs carry a rotation, which is turned back at the
query's position. Formulas as in transformers' `DeepseekV4Attention` and SGLang 0.5.23 `DSparkAttention`; what
visibility and sinks add is the caller's (`packed_attention`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract
from truedraft.models.rope import RotaryTable


class LatentAttention:
    """The projections of one layer. `weights`: the stage's tensors below `attn.`; cos and sin [N, dims]."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor], rope: RotaryTable) -> None:
        self._rope = rope
        self._eps: float = contract["backbone.norm_eps"]
        self._heads: int = contract["backbone.heads"]
        self._head_dim: int = contract["backbone.head_dim"]
        self._query_down, self._query_up = weights["wq_a.weight"], weights["wq_b.weight"]
        self._query_norm = weights["q_norm.weight"]
        self._latent, self._latent_norm = weights["wkv.weight"], weights["kv_norm.weight"]
        groups = contract["stages.output_groups"]
        # [groups, rank, D of the group's heads]
        self._output_down = weights["wo_a.weight"].view(groups, -1, self._heads // groups * self._head_dim)
        self._output_up = weights["wo_b.weight"]

    def latent(self, rows: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Key and value in one [N, D], of rows [N, H]."""
        latent = F.linear(rows, self._latent)
        return self._rope.rotate(self._norm(latent, self._latent_norm), cos, sin)

    def query(self, rows: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Queries [heads, N, D] of rows [N, H], each of unit root mean square before the rotation."""
        low = self._norm(F.linear(rows, self._query_down), self._query_norm)
        heads = F.linear(low, self._query_up).view(len(rows), self._heads, self._head_dim)
        normed = F.rms_norm(heads, (self._head_dim,), eps=self._eps)
        return self._rope.rotate(normed.transpose(0, 1), cos, sin)

    def output(self, attended: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rows [N, H] of what the heads have read [heads, N, D]."""
        turned_back = self._rope.rotate(attended, cos, -sin).transpose(0, 1)
        groups = turned_back.reshape(len(turned_back), len(self._output_down), -1).transpose(0, 1)
        low = groups @ self._output_down.mT  # [groups, N, rank]
        return F.linear(low.transpose(0, 1).flatten(1), self._output_up)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)
