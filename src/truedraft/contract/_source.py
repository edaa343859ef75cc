"""Where a value comes from, and the three states that it can be in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from truedraft.contract._values import Value, to_json

SourceKind: TypeAlias = Literal["stated", "shape", "family", "inferred", "measured", "override"]
State: TypeAlias = Literal["value", "unknown", "not_applicable"]


@dataclass(frozen=True)
class Source:
    """What vouches for a value.

    `stated`: `where` is a file and JSON pointer (`draft/config.json#/block_size`); `shape`: a file and
    tensor name (`draft/model.safetensors#fc.weight`); `family`: the producer's published rule and its
    reference; `inferred`: a guess, with its reason; `measured`: a probe; `override`: `--set`.
    """

    kind: SourceKind
    where: str


@dataclass(frozen=True)
class Sourced:
    """One axis of a contract: a value with its source, or the statement that there is none.

    `note` says why a value is unknown, or what to know about it.
    """

    state: State
    value: Value = None
    source: Source | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The form that `truedraft contract --json` prints."""
        out: dict[str, Any] = {"state": self.state}
        if self.state == "value":
            out["value"] = to_json(self.value)
        if self.source is not None:
            out["source"] = {"kind": self.source.kind, "where": self.source.where}
        if self.note:
            out["note"] = self.note
        return out


def stated(value: Value, where: str) -> Sourced:
    """A value that a file states; `where` is `role/file#/json/pointer`."""
    return Sourced("value", value, Source("stated", where))


def shape(value: Value, where: str) -> Sourced:
    """A value that a tensor's presence or shape settles; `where` is `role/file#tensor`."""
    return Sourced("value", value, Source("shape", where))


def family(value: Value, reference: str) -> Sourced:
    """A value that the producer's published code fixes; `reference` says where."""
    return Sourced("value", value, Source("family", reference))


def inferred(value: Value, reason: str) -> Sourced:
    """A guess; `run` accepts it with a warning."""
    return Sourced("value", value, Source("inferred", reason))


def measured(value: Value, where: str) -> Sourced:
    """A value that a probe found the weights to support."""
    return Sourced("value", value, Source("measured", where))


def override(value: Value, where: str = "--set") -> Sourced:
    """A value that the user set."""
    return Sourced("value", value, Source("override", where))


def unknown(note: str) -> Sourced:
    """No source settles the axis; `note` says what was looked for."""
    return Sourced("unknown", note=note)


def not_applicable(note: str = "") -> Sourced:
    """The axis does not exist for this pair."""
    return Sourced("not_applicable", note=note)
