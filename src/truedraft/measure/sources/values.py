"""Counts, lists and numbers out of JSON that nobody vouches for: what has the wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST_DEPTH = 12
MOST_COUNT = 2**53
MOST_WIDTH = 4096
MOST_NUMBER = 1e300
"""Larger numbers are no measurements, and whole ones of them may be more than a float holds."""


def count(found: Mapping[str, Any], *names: str) -> int | None:
    """The first of these keys that holds a whole number >= 0."""
    for name in names:
        value = found.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_COUNT:
            return value
    return None


def number(found: Mapping[str, Any], *names: str) -> float | None:
    """The first of these keys that holds a finite number >= 0."""
    for name in names:
        value = found.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST_NUMBER:
            return float(value)
    return None


def text(found: Mapping[str, Any], *names: str) -> str:
    """The first of these keys that holds a string."""
    for name in names:
        value = found.get(name)
        if isinstance(value, str):
            return value
    return ""


def counts(value: object) -> tuple[int, ...] | None:
    """A list of whole numbers >= 0; `None` if it is anything else."""
    if not isinstance(value, list):
        return None
    if not all(isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0 for entry in value):
        return None
    return tuple(value)


def shares(value: object) -> tuple[float, ...] | None:
    """A list of numbers between 0 and 1; `None` if it is anything else, so that no position moves."""
    if not isinstance(value, list) or len(value) > MOST_WIDTH:
        return None
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and 0 <= x <= 1 for x in value):
        return None
    return tuple(float(x) for x in value)


def histogram(value: object) -> tuple[int, ...] | None:
    """Rounds that accepted exactly j drafts, j = 0, 1, …: from a list, or from an object with keys "j"."""
    if not isinstance(value, dict):
        return counts(value)
    if not all(isinstance(key, str) and key.isdecimal() and len(key) < 5 for key in value):
        return None
    sparse = {int(key): rounds for key, rounds in value.items()}
    return counts([sparse.get(j, 0) for j in range(max(sparse, default=-1) + 1)])


def objects(value: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Every object inside `value`, outer ones first."""
    if depth > MOST_DEPTH:
        return
    if isinstance(value, dict):
        yield value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(entry, dict | list):
            yield from objects(entry, depth + 1)
