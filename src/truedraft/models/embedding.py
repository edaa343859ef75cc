"""A drafter's embedding: own or the target's table, and the factor on its rows."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from truedraft.contract import Contract


class Embedding:
    """Rows of the table that `embedding.source` names, times `embedding.scale`.

    `weights`: canonical names to tensors. `target_embedding` [V, H]: used where the source is `target`.
    """

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor], target_embedding: Tensor) -> None:
        own = contract["embedding.source"] == "own"
        self.table = weights["embed_tokens.weight"] if own else target_embedding
        self._scale: float = contract["embedding.scale"]

    def __call__(self, ids: Tensor) -> Tensor:
        """Embeddings [..., H] of target ids [...]."""
        rows = self.table[ids]
        return rows if self._scale == 1.0 else rows * self._scale
