"""`Contract`: every convention of a pair, each with its source; and `diff`, the one way to compare two."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truedraft.contract._axes import AXES
from truedraft.contract._source import Sourced
from truedraft.contract._target import TargetSpec
from truedraft.contract._values import Value, format_value, to_json

SCHEMA = 1


@dataclass(frozen=True)
class Conflict:
    """Two sources that disagree about one axis. The contract keeps the first until `--set` settles it."""

    axis: str
    sources: tuple[Sourced, ...]

    def __str__(self) -> str:
        claims = " but ".join(
            f"{s.source.where if s.source else '?'} says {format_value(s.value)}" for s in self.sources
        )
        return f"{self.axis}: {claims}"

    @property
    def remedy(self) -> str:
        """The overrides that would settle it, one per claim."""
        choices = dict.fromkeys(format_value(sourced.value) for sourced in self.sources)
        return " or ".join(f"--set {self.axis}={choice}" for choice in choices)

    def to_json(self) -> dict[str, Any]:
        """`{"axis": …, "sources": [{"value": …, "kind": …, "where": …}, …]}`."""
        return {
            "axis": self.axis,
            "sources": [
                {
                    "value": to_json(s.value),
                    "kind": s.source.kind if s.source else None,
                    "where": s.source.where if s.source else None,
                }
                for s in self.sources
            ],
        }


@dataclass(frozen=True)
class Contract:
    """How the drafter was trained.

    `axes` has an entry for every axis of `AXES`. `unread_keys`: keys of the drafter's files that no reader
    used (`draft/config.json#/foo`, `draft/model.safetensors#bar`).
    """

    family: str
    dialect: str
    target: TargetSpec
    axes: Mapping[str, Sourced]
    conflicts: tuple[Conflict, ...] = ()
    unread_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if set(self.axes) != set(AXES):
            odd = sorted(set(self.axes) ^ set(AXES))
            raise ValueError(f"a contract needs exactly the axes of AXES; missing or extra: {odd}")

    def __getitem__(self, axis: str) -> Any:
        """The value of an axis; `KeyError` if it is unknown or not applicable."""
        sourced = self.axes[axis]
        if sourced.state != "value":
            raise KeyError(f"{axis} is {sourced.state}")
        return sourced.value

    def get(self, axis: str) -> Any:
        """The value of an axis, or `None` if it is unknown or not applicable."""
        return self.axes[axis].value

    def tuple_of(self, axis: str) -> tuple[Value, ...]:
        """The value of a tuple axis; empty if it is unknown or not applicable."""
        value = self.axes[axis].value
        return value if isinstance(value, tuple) else ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of all axes that no source settles."""
        return tuple(name for name, sourced in self.axes.items() if sourced.state == "unknown")

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Axes that keep this pair from running: unknown though required, or in conflict."""
        needed = {n for n in self.unknown if self.family in AXES[n].required_by}
        needed |= {conflict.axis for conflict in self.conflicts}
        return tuple(name for name in AXES if name in needed)

    @property
    def inferred(self) -> tuple[str, ...]:
        """Axes whose value is a guess."""
        return tuple(n for n, s in self.axes.items() if s.source and s.source.kind == "inferred")

    @property
    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 over family and values.

        Sources do not enter, and neither do axes that do not apply, so that a new axis changes no hash of
        pairs that lack it.
        """
        values = {
            name: to_json(sourced.value) if sourced.state == "value" else {"state": sourced.state}
            for name, sourced in sorted(self.axes.items())
            if sourced.state != "not_applicable"
        }
        text = json.dumps({"family": self.family, "axes": values}, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The object that `truedraft contract --json` prints."""
        return {
            "schema": SCHEMA,
            "contract_hash": self.hash,
            "family": self.family,
            "dialect": self.dialect,
            "axes": {name: sourced.to_json() for name, sourced in self.axes.items()},
            "conflicts": [conflict.to_json() for conflict in self.conflicts],
            "unread_keys": list(self.unread_keys),
            "unknown": list(self.unknown),
        }


@dataclass(frozen=True)
class Difference:
    """One axis on which two contracts disagree."""

    axis: str
    left: Sourced
    right: Sourced

    def __str__(self) -> str:
        left, right = (
            format_value(s.value) if s.state == "value" else s.state for s in (self.left, self.right)
        )
        return f"{self.axis}: {left} -> {right}"


def diff(left: Contract, right: Contract) -> tuple[Difference, ...]:
    """The axes whose state or value differs, in the order of `AXES`. Sources do not count."""
    return tuple(
        Difference(name, left.axes[name], right.axes[name])
        for name in AXES
        if (left.axes[name].state, left.axes[name].value) != (right.axes[name].state, right.axes[name].value)
    )
