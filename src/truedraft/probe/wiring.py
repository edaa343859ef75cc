"""Drafters of one pair under any values of its axes; weights are read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from truedraft.contract import Contract, InputError, TargetSpec, Value, format_value
from truedraft.formats import Resolution, TensorRef, resolve
from truedraft.models import BlockDrafter, ChainDrafter
from truedraft.models.load import load_tensors, make_drafter
from truedraft.probe.features import Tap

Changes: TypeAlias = "Mapping[str, Value]"
"""Values of axes that differ from what the files and the user's overrides say."""

_Key: TypeAlias = "tuple[Path, str, tuple[int, int] | None]"


class WeightsError(InputError):
    """Weights that no value of any axis makes usable: unreadable, or not finite."""


@dataclass(frozen=True)
class Wired:
    """A contract, its drafter, and the taps that it reads."""

    contract: Contract
    drafter: BlockDrafter | ChainDrafter
    taps: tuple[Tap, ...]


class Wiring:
    """Makes drafters. `overrides`: the user's, which hold unless a change says otherwise.

    `special_token_ids`: ids of the tokenizer that stand for no text.
    """

    def __init__(
        self,
        target: str | Path,
        draft: str | Path | None,
        overrides: Iterable[str] = (),
        special_token_ids: tuple[int, ...] = (),
        speculative_tokens: int | None = None,
    ) -> None:
        self._names = (target, draft)
        self._overrides = tuple(overrides)
        self._special = special_token_ids
        self._speculative_tokens = speculative_tokens
        self._tensors: dict[_Key, Tensor] = {}
        self._tables: tuple[Tensor, Tensor] | None = None

    def resolve(self, changes: Changes) -> Resolution:
        """The pair with some axes changed. Raises `InputError` where its tensors do not allow that."""
        given = [f"{axis}={format_value(value)}" for axis, value in changes.items()]
        found = resolve(*self._names, (*self._overrides, *given))
        spec: TargetSpec = replace(found.contract.target, special_token_ids=self._special)
        return replace(found, contract=replace(found.contract, target=spec))

    def attach(self, embedding: Tensor, head: Tensor) -> None:
        """The target's embedding and output head [V, H], which some drafters use."""
        self._tables = embedding, head

    def wire(self, changes: Changes) -> Wired:
        """The drafter with some axes changed.

        Raises `InputError` where that cannot be built, `WeightsError` where the weights are to blame.
        """
        assert self._tables is not None
        contract, weights = self.tensors(changes)
        drafter = make_drafter(contract, weights, *self._tables, self._speculative_tokens)
        return Wired(contract, drafter, taps_of(contract))

    def tensors(self, changes: Changes) -> tuple[Contract, dict[str, Tensor]]:
        """The contract with some axes changed, and the drafter's tensors by name; raises as `wire`."""
        found = self.resolve(changes)
        unsettled = found.contract.unsettled
        if unsettled:
            raise InputError(f"{', '.join(unsettled)} would be unsettled, expected a settled contract")
        return found.contract, self._weights(found.tensors)

    def _weights(self, references: Mapping[str, TensorRef]) -> dict[str, Tensor]:
        keys = {name: (ref.path, ref.name, ref.rows) for name, ref in references.items()}
        absent = {name: ref for name, ref in references.items() if keys[name] not in self._tensors}
        try:
            loaded = load_tensors(absent, dtype=torch.float32, device="cpu")
        except InputError as error:
            raise WeightsError(str(error)) from None
        self._tensors.update({keys[name]: tensor for name, tensor in loaded.items()})
        return {name: self._tensors[key] for name, key in keys.items()}


def taps_of(contract: Contract) -> tuple[Tap, ...]:
    """The taps of a settled contract."""
    return tuple(zip(contract["taps.layers"], contract["taps.state"], strict=True))
