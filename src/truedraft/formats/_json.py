"""JSON objects from files that nobody vouches for: size, depth, numbers and duplicate keys are checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from truedraft.contract import InputError
from truedraft.formats._inside import need_file

CONFIG_BYTES = 4 * 2**20
"""Largest config file that is read; published ones are below 100 kB."""

MAX_DIGITS = 20

MOST_ENTRIES = 700_000
"""Commas in one file, a bound on the objects that it becomes in memory; a header has four per tensor."""


def load_object(path: Path, *, limit: int = CONFIG_BYTES, entries: int = MOST_ENTRIES) -> dict[str, Any]:
    """The JSON object in `path`.

    Raises `InputError` with one line if the file is missing, larger than `limit` bytes, not UTF-8, not
    JSON, not an object, nested too deeply, or holds duplicate keys, NaN, Infinity or absurd numbers.
    """
    return parse_object(read_bytes(path, limit), str(path), entries)


def read_bytes(path: Path, limit: int) -> bytes:
    """All of a regular file of at most `limit` bytes that is no link out of its directory (`find_file`)."""
    need_file(path.parent, path.name)
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > limit:
        raise InputError(f"{path}: larger than {limit} bytes, expected a smaller file")
    return data


def parse_object(data: bytes, where: str, entries: int = MOST_ENTRIES) -> dict[str, Any]:
    """`data` as a JSON object; `where` names it in errors (see `load_object`)."""
    if data.count(b",") > entries:
        raise InputError(f"{where}: found more than {entries} entries, expected a smaller file")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_short(int),
            parse_float=_short(_finite),
        )
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON ({error.msg} at line {error.lineno})") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: found {_kind(value)}, expected a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {double[:80]!r} appears twice in one object")
    return out


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"found {word}, expected a finite number")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"found {word}, expected a finite number")
    return value


def _short(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(word: str) -> Any:
        # Python's own limit is 4300 digits, and its message spans lines.
        if convert is int and len(word) > MAX_DIGITS:
            raise ValueError(f"found a whole number of {len(word)} digits")
        return convert(word)

    return parse


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")
