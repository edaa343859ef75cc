"""Targets and drafters, built from a contract and tensors. Needs torch."""

from truedraft.models.block import BlockDrafter
from truedraft.models.chain import ChainDrafter
from truedraft.models.load import Pair, encode, load_pair
from truedraft.models.stateful import StatefulTarget
from truedraft.models.target import HFTarget

__all__ = ["BlockDrafter", "ChainDrafter", "HFTarget", "Pair", "StatefulTarget", "encode", "load_pair"]
