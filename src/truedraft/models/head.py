"""A drafter's output head: logits over the draft ids, and which target id each of them stands for."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Self

import torch
from torch import Tensor

from truedraft.contract import Contract, InputError
from truedraft.models.product import Product


class Head:
    """An output head, own or the target's.

    `weights`: canonical names to tensors. `target_head` [V, H]: used where `head.source` is `target`.
    `softcap`: whether the contract's softcap applies here. `target_ids`: int64 [draft ids], or `None`.
    """

    def __init__(
        self,
        contract: Contract,
        weights: Mapping[str, Tensor],
        target_head: Tensor,
        *,
        softcap: bool = True,
    ) -> None:
        self.weight = weights["lm_head.weight"] if contract["head.source"] == "own" else target_head
        self.product = Product(self.weight)
        self.target_ids = target_ids(contract, weights)
        self._multiplier: float = contract["head.multiplier"]
        self._softcap: float | None = contract["head.softcap"] if softcap else None

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., draft ids] of hidden states [..., H], in fp32."""
        return self.scaled(self.product(hidden))

    def scaled(self, products: Tensor) -> Tensor:
        """Logits [..., draft ids], in fp32, from the weight's products with hidden states."""
        logits = products.float()
        if self._multiplier != 1.0:
            logits = logits * self._multiplier
        return softcapped(logits, self._softcap)

    def narrowed(self, rows: Tensor) -> Self:
        """The same head over some of its draft ids, int64 [n]; `target_ids` then says which they are."""
        twin = copy(self)
        twin.weight = self.weight[rows]
        twin.product = Product(twin.weight)
        twin.target_ids = rows if self.target_ids is None else self.target_ids[rows]
        return twin


def softcapped(logits: Tensor, cap: float | None) -> Tensor:
    """The logits bent towards -cap … cap, or as they are."""
    return logits if cap is None else cap * torch.tanh(logits / cap)


def target_ids(contract: Contract, weights: Mapping[str, Tensor], where: str = "d2t") -> Tensor | None:
    """Target id of each draft id, int64 [draft ids]; `None` where they are the same.

    `head.vocabulary_map` `offset`: target = i + d2t[i] (speculators, SafeAILab EAGLE-3); `absolute`: target =
    d2t[i]. Raises `InputError` naming `where` if an id lies outside the target's vocabulary.
    """
    kind = contract["head.vocabulary_map"]
    if kind == "none":
        return None
    table = weights["d2t"].long()
    ids = table + torch.arange(len(table), device=table.device) if kind == "offset" else table
    size = contract.target.vocab_size
    outside = ((ids < 0) | (ids >= size)).nonzero()
    if len(outside):
        row = int(outside[0])
        raise InputError(
            f"{where}[{row}]: found {int(table[row])}, which is target id {int(ids[row])} "
            f"(head.vocabulary_map={kind}), expected an id from 0 to {size - 1}"
        )
    return ids
