"""Typed access to a config's keys that remembers which of them a reader used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truedraft.contract import InputError, Record, Sourced, Value, stated
from truedraft.formats._checkpoint import Checkpoint


@dataclass(frozen=True)
class Kind:
    """A JSON type: `expects` completes "expected …"."""

    expects: str
    accepts: Callable[[Any], bool]


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _is_number(value: object) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


INTEGER = Kind("a whole number", _is_integer)
NUMBER = Kind("a number", _is_number)
BOOLEAN = Kind("true or false", lambda v: isinstance(v, bool))
TEXT = Kind("a string", lambda v: isinstance(v, str) and v != "")
OBJECT = Kind("an object", lambda v: isinstance(v, dict))
INTEGERS = Kind("a list of whole numbers", lambda v: isinstance(v, list) and all(map(_is_integer, v)))
TEXTS = Kind("a list of strings", lambda v: isinstance(v, list) and all(isinstance(x, str) for x in v))


class Keys:
    """The keys of one config.

    Pointers are slash-separated without a leading slash (`dflash_config/causal`).
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._used: set[str] = set()

    def where(self, pointer: str) -> str:
        """`draft/config.json#/pointer`."""
        return self._checkpoint.where(f"/{pointer}")

    def has(self, pointer: str) -> bool:
        """Whether the key exists, be it null. Does not count as reading it."""
        *parents, last = pointer.split("/")
        node = self._node(parents)
        return node is not None and last in node

    def get(self, pointer: str, kind: Kind) -> Any:
        """The value at `pointer`, or `None` if it is absent or null.

        Raises `InputError` if it is of another type than `kind`.
        """
        *parents, last = pointer.split("/")
        node = self._node(parents)
        self._used.add(pointer)
        value = None if node is None else node.get(last)
        if value is None:
            return None
        if not kind.accepts(value):
            raise InputError(f"{self.where(pointer)}: found {value!r:.80}, expected {kind.expects}")
        return tuple(value) if isinstance(value, list) else value

    def raw(self, pointer: str) -> Any:
        """The value at `pointer` whatever its type, or `None` if it is absent; a key of several types."""
        *parents, last = pointer.split("/")
        node = self._node(parents)
        self._used.add(pointer)
        return None if node is None else node.get(last)

    def claim(self, pointer: str, kind: Kind) -> Sourced | None:
        """What the key at `pointer` states, or `None` if it is absent or null."""
        value: Value = self.get(pointer, kind)
        return None if value is None else stated(value, self.where(pointer))

    def claims(self, kind: Kind, *pointers: str) -> list[Sourced]:
        """What the keys at `pointers` state, in this order, without the absent ones."""
        return [claim for pointer in pointers if (claim := self.claim(pointer, kind)) is not None]

    def ignore(self, *pointers: str) -> None:
        """Declare keys inert: no loader needs them to run the drafter as trained."""
        self._used.update(pointers)

    def unread(self) -> tuple[str, ...]:
        """Keys that were neither read nor declared inert; an object is named whole if none of it was read.

        Keys that begin with an underscore are annotations.
        """
        return tuple(self.where(_escape(path)) for path in self._unread(self._checkpoint.config, ()))

    def _unread(self, node: Mapping[str, Any], parents: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for key, value in node.items():
            path = (*parents, key)
            pointer = "/".join(path)
            inside = any(used.startswith(pointer + "/") for used in self._used)
            if key.startswith("_") or value is None or (pointer in self._used and not inside):
                continue  # an annotation, a null, which states nothing, or a key that was read
            if isinstance(value, dict) and inside:
                yield from self._unread(value, path)
            elif pointer not in self._used:
                yield path

    def _node(self, parents: list[str]) -> Mapping[str, Any] | None:
        node: Mapping[str, Any] = self._checkpoint.config
        for depth, name in enumerate(parents):
            child = node.get(name)
            if child is None:
                return None
            if not isinstance(child, dict):
                pointer = "/".join(parents[: depth + 1])
                raise InputError(f"{self.where(pointer)}: found {child!r:.80}, expected an object")
            node = child
        return node


def record(kind: str, fields: Mapping[str, Any]) -> Record:
    """A `Record` of the given kind without its null fields."""
    return Record({"kind": kind, **{k: v for k, v in fields.items() if v is not None}})


def _escape(path: tuple[str, ...]) -> str:
    return "/".join(key.replace("~", "~0").replace("/", "~1") for key in path)
