"""Targets and drafters, built from a contract and tensors. Needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truedraft.models.block import BlockDrafter
from truedraft.models.chain import ChainDrafter
from truedraft.models.kernels import use_kernels
from truedraft.models.load import Pair, encode, load_pair
from truedraft.models.target import HFTarget

if TYPE_CHECKING:
    from truedraft.models.stateful import StatefulTarget

__all__ = [
    "BlockDrafter",
    "ChainDrafter",
    "HFTarget",
    "Pair",
    "StatefulTarget",
    "encode",
    "load_pair",
    "use_kernels",
]


def __getattr__(name: str) -> Any:
    if name == "StatefulTarget":  # its cache layers came to transformers later than the rest
        from truedraft.models.stateful import StatefulTarget

        return StatefulTarget
    raise AttributeError(f"module 'truedraft.models' has no attribute {name!r}")
