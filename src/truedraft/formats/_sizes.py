"""Sizes of tensors as a contract settles them: a number, or `None` where it does not."""

from __future__ import annotations

from typing import Any

from truedraft.contract import Contract

Dim = int | None
"""A size, or `None` where the contract does not settle it."""


class Sizes:
    """Values by axis; `None` where an axis is unknown or in conflict: nothing is held against it then."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._open = {conflict.axis for conflict in contract.conflicts}

    def __call__(self, axis: str) -> Dim:
        value = self.settled(axis)
        return value if isinstance(value, int) else None

    def settled(self, axis: str) -> Any:
        """The axis's value, or `None`."""
        return None if axis in self._open else self._contract.get(axis)

    def fused(self) -> Dim:
        """Width of the concatenated taps."""
        taps = len(self._contract.tuple_of("taps.layers"))
        settled = taps and "taps.layers" not in self._open
        return taps * self._contract.target.hidden_size if settled else None


def times(left: Dim, right: Dim) -> Dim:
    """The product."""
    return None if left is None or right is None else left * right


def plus(left: Dim, right: Dim) -> Dim:
    """The sum."""
    return None if left is None or right is None else left + right
