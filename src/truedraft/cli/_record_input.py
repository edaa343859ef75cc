"""Acceptance records from JSON lines that nobody vouches for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from operator import gt
from typing import Any

from truedraft.contract import AcceptanceRecord, InputError
from truedraft.formats._json import parse_object

MOST = 2**53
"""Whole numbers beyond this are no counts; JSON readers round them."""

MOST_ROUNDS = 2_000_000


def parse_records(lines: Iterable[tuple[int, bytes]], name: str) -> tuple[AcceptanceRecord, ...]:
    """One record per line of the file `name`; `lines` come with their numbers, empty ones are skipped.

    Raises `InputError` of one line for the first bad line: it names file, line, key, what was found and what
    was expected. Unknown keys are refused: they could be misspelt settings. So are more than `MOST_ROUNDS`.
    """
    records, rounds = [], 0
    for number, line in lines:
        if line.strip():
            where = f"{name}:{number}"
            records.append(_record(parse_object(line, where), where))
            rounds += len(records[-1].proposed)
            if rounds > MOST_ROUNDS:
                raise InputError(f"{where}: found more than {MOST_ROUNDS} rounds, expected fewer per file")
    if not records:
        raise InputError(f"{name}: found no record, expected one JSON object per line")
    return tuple(records)


def _record(line: dict[str, Any], where: str) -> AcceptanceRecord:
    known = {entry.name: entry for entry in fields(AcceptanceRecord)}
    unknown = next((key for key in line if key not in known), None)
    if unknown is not None:
        raise InputError(f"{where}#/{unknown:.80}: unknown key, expected one of {', '.join(known)}")
    given: dict[str, Any] = {}
    for name, entry in known.items():
        if name in line:
            given[name] = _value(line[name], _KINDS[str(entry.type)], f"{where}#/{name}")
        elif entry.default is MISSING:
            raise InputError(f"{where}#/{name}: missing, expected {_KINDS[str(entry.type)].expects}")
    if given.get("schema", 1) != 1:
        raise InputError(f"{where}#/schema: found {given['schema']}, expected 1")
    _check_rounds(given["proposed"], given["accepted"], where)
    _check_histogram(given.get("histogram", ()), bool(given["proposed"]), where)
    nodes, rounds = len(given.get("nodes", ())), len(given["proposed"])
    if nodes not in (0, rounds):
        raise InputError(f"{where}#/nodes: found {nodes} rounds, expected {rounds} as in proposed, or none")
    return AcceptanceRecord(**given)


def _check_rounds(proposed: tuple[int, ...], accepted: tuple[int, ...], where: str) -> None:
    if len(proposed) != len(accepted):
        raise InputError(
            f"{where}#/accepted: found {len(accepted)} rounds, expected {len(proposed)} as in proposed"
        )
    if not any(map(gt, accepted, proposed)):
        return
    for number, (most, count) in enumerate(zip(proposed, accepted, strict=True)):
        if count > most:
            raise InputError(f"{where}#/accepted/{number}: found {count}, expected 0 to {most} (proposed)")


def _check_histogram(histogram: tuple[tuple[int, int, int], ...], rounds: bool, where: str) -> None:
    if histogram and rounds:
        raise InputError(f"{where}#/histogram: found one beside proposed, expected rounds or a histogram")
    for number, (most, count, _) in enumerate(histogram):
        if count > most:
            raise InputError(f"{where}#/histogram/{number}/1: found {count}, expected 0 to {most} (proposed)")


@dataclass(frozen=True)
class _Kind:
    """A JSON type: `expects` completes "expected …". `entries`: of a list, whole numbers >= 0 if `None`."""

    expects: str
    accepts: Callable[[Any], bool]
    entries: _Kind | None = None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


def _is_number(value: object) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value) and value >= 0)


_COUNT = _Kind("a whole number >= 0", _is_count)

# By the annotations of `AcceptanceRecord`.
_KINDS = {
    "str": _Kind("a string", lambda value: isinstance(value, str)),
    "int": _COUNT,
    "float": _Kind("a number >= 0", _is_number),
    "float | None": _Kind("a number >= 0 or null", lambda value: value is None or _is_number(value)),
    "bool | None": _Kind("true, false or null", lambda value: value is None or isinstance(value, bool)),
    "int | None": _Kind("a whole number >= 0 or null", lambda value: value is None or _is_count(value)),
    "tuple[tuple[int, int, int], ...]": _Kind(
        "a list of [proposed, accepted, rounds]",
        lambda value: isinstance(value, list),
        _Kind("[proposed, accepted, rounds]", lambda value: isinstance(value, list) and len(value) == 3),
    ),
    "tuple[int, ...]": _Kind("a list of whole numbers >= 0", lambda value: isinstance(value, list)),
}


def _value(value: Any, kind: _Kind, where: str) -> Any:
    if not kind.accepts(value):
        raise InputError(f"{where}: found {value!r:.80}, expected {kind.expects}")
    if isinstance(value, list):
        if kind.entries is None and set(map(type, value)) == {int} and min(value) >= 0 and max(value) < MOST:
            return tuple(value)  # a million rounds, one by one, take seconds
        return tuple(_value(entry, kind.entries or _COUNT, f"{where}/{i}") for i, entry in enumerate(value))
    return value
