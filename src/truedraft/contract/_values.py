"""Value types of the axes: how a value is parsed from the command line, checked and printed.

Knows nothing of any particular axis. Values are hashable Python objects: `int`, `float`, `bool`,
`str`, `None`, tuples of these, and `Record` for a set of named numbers (a rope scaling).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | Record | None"


class Record(Mapping[str, Any]):
    """An immutable, hashable mapping from names to scalars or tuples of scalars."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items: tuple[tuple[str, Any], ...] = tuple(
            (key, tuple(value) if isinstance(value, list) else value) for key, value in sorted(items.items())
        )

    def __getitem__(self, key: str) -> Any:
        return dict(self._items)[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._items == other._items

    def __repr__(self) -> str:
        return f"Record({dict(self._items)!r})"


@dataclass(frozen=True)
class ValueType:
    """A scalar type: `expects` completes the sentence "expected …".

    `normal` maps accepted values that mean the same to one of them (`10000` to `10000.0`), so that they
    hash alike. `options`: all values, where there are few.
    """

    expects: str
    parse: Callable[[str], Value]
    accepts: Callable[[Value], bool]
    normal: Callable[[Value], Value] = lambda value: value
    options: tuple[Value, ...] = ()


def integer(minimum: int | None = None) -> ValueType:
    """A whole number, not below `minimum` where one is given."""
    return ValueType(
        "a whole number" + ("" if minimum is None else f" >= {minimum}"),
        int,
        lambda value: _is_int(value) and (minimum is None or int(value) >= minimum),  # type: ignore[arg-type]
    )


def optional_integer(minimum: int) -> ValueType:
    """A whole number >= `minimum`, or `none`."""
    whole = integer(minimum)
    return ValueType(
        f"{whole.expects} or none",
        lambda text: None if text.lower() == "none" else int(text),
        lambda value: value is None or whole.accepts(value),
    )


def number(*, positive: bool = True) -> ValueType:
    """A finite number, positive unless said otherwise."""
    return ValueType(
        "a positive number" if positive else "a finite number",
        float,
        lambda value: _is_number(value) and (not positive or float(value) > 0),  # type: ignore[arg-type]
        _to_float,
    )


def optional_number() -> ValueType:
    """A positive finite number, or `none`."""
    positive = number()
    return ValueType(
        "a positive number or none",
        lambda text: None if text.lower() == "none" else float(text),
        lambda value: value is None or positive.accepts(value),
        _to_float,
    )


def boolean() -> ValueType:
    """`true` or `false` (also yes/no, on/off, 1/0)."""
    return ValueType(
        "true or false", _parse_bool, lambda value: isinstance(value, bool), options=(True, False)
    )


def choice(*options: str) -> ValueType:
    """One of a fixed set of words."""
    return ValueType(
        "one of " + ", ".join(options), lambda text: text, lambda value: value in options, options=options
    )


def text() -> ValueType:
    """Any non-empty text."""
    return ValueType("a text", lambda word: word, lambda value: isinstance(value, str) and value != "")


def scaling_record(kinds: Mapping[str, frozenset[str]]) -> ValueType:
    """`none`, or `kind:key=number:…` with the keys that this kind of rope scaling needs."""
    return ValueType(
        "none or KIND:key=number:… with KIND one of " + ", ".join(sorted(kinds)),
        lambda word: None if word.lower() == "none" else _parse_record(word),
        lambda value: value is None or _is_scaling(value, kinds),
        _to_float_record,
    )


def format_value(value: Value) -> str:
    """A value as `--set` would accept it; runs of equal entries are shortened to `3×none`."""
    if isinstance(value, tuple):
        if len(value) > 1 and len(set(value)) == 1 and not _is_int(value[0]):
            return f"{len(value)}×{format_value(value[0])}"
        return ",".join(format_value(entry) for entry in value) or "(empty)"
    if isinstance(value, Record):
        rest = (f"{k}={format_value(v)}" for k, v in value.items() if k != "kind")
        return ":".join([str(value.get("kind", "?")), *rest])
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        short = f"{value:.10g}"
        return short if float(short) == value else repr(value)
    return str(value)


def to_json(value: Value) -> Any:
    """A value as JSON data: tuples become lists, records objects."""
    if isinstance(value, tuple):
        return [to_json(entry) for entry in value]
    if isinstance(value, Record):
        return {key: to_json(entry) for key, entry in value.items()}
    return value


def from_json(data: Any) -> Value:
    """The value that `to_json` made of it. Raises `ValueError` for data that no value becomes."""
    if isinstance(data, list):
        return tuple(from_json(entry) for entry in data)
    if isinstance(data, dict):
        return Record({str(key): from_json(entry) for key, entry in data.items()})
    if data is None or isinstance(data, bool | int | float | str):
        return data
    raise ValueError(f"found {data!r:.80}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**53


def _parse_bool(word: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    if word.lower() not in words:
        raise ValueError(word)
    return words[word.lower()]


def _parse_record(word: str) -> Record:
    kind, *pairs = word.split(":")
    fields: dict[str, Any] = {"kind": kind}
    for pair in pairs:
        key, equals, text_ = pair.partition("=")
        if not key or not equals or key in fields:
            raise ValueError(pair)
        fields[key] = text_.lower() == "true" if text_.lower() in ("true", "false") else float(text_)
    return Record(fields)


def _to_float(value: Value) -> Value:
    return float(value) if _is_number(value) else value  # type: ignore[arg-type]


def _to_float_record(value: Value) -> Value:
    if not isinstance(value, Record):
        return value
    return Record({key: _to_float(entry) for key, entry in value.items()})


def _is_scaling(value: Value, kinds: Mapping[str, frozenset[str]]) -> bool:
    if not isinstance(value, Record) or value.get("kind") not in kinds:
        return False
    numbers = [entry for key, entry in value.items() if key != "kind"]
    needed = kinds[value["kind"]]
    return (
        needed <= set(value)
        and all(_is_number(n) or n is None or isinstance(n, bool) for n in numbers)
        and all(_is_number(value[key]) and value[key] > 0 for key in needed)
    )
