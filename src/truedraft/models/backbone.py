"""What a block drafter asks of its layers, and which kind of layers a contract means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from truedraft.contract import Contract
from truedraft.formats.stage_layout import is_staged
from truedraft.models.deepseek_v4 import StageReadout, Stages
from truedraft.models.dense_block import DenseLayers
from truedraft.models.product import Product
from truedraft.models.readout import Readout


class Attend(Protocol):
    """Attention of a block over its context and itself, for all sequences of a batch."""

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None = None
    ) -> Tensor:
        """From query [heads, N, D], key and value [kv heads, N, D] and sinks [heads] to [heads, N, D]."""


class Backbone(Protocol):
    """The layers of a block drafter. `cache_shape`: layers, kv heads, and head dimensions of its cache."""

    cache_shape: tuple[int, int, int]

    def context_rows(self, taps: Tensor, positions: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, kv heads, n, D] of taps [n, ΣH] at int64 positions below `end`."""

    def products(self) -> tuple[Product, ...]:
        """The products that a kernel may compute."""

    def __call__(self, x: Tensor, positions: Tensor, largest: int, attend: Attend) -> Tensor:
        """Hidden states [N, H] for the readout, of embeddings [N, H] at positions of at most `largest`."""


def make_backbone(contract: Contract, weights: Mapping[str, Tensor], device: torch.device) -> Backbone:
    """The layers of a settled contract. `weights`: canonical names to tensors."""
    if is_staged(contract):
        return Stages(contract, weights, device)
    return DenseLayers(contract, weights, device)


def make_readout(contract: Contract, weights: Mapping[str, Tensor], target_head: Tensor) -> Readout:
    """What reads drafts off the hidden states of that backbone."""
    return (StageReadout if is_staged(contract) else Readout)(contract, weights, target_head)
