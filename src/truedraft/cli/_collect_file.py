"""The collected file itself: where it may lie, its text, and the last look before it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truedraft.cli._measure_input import is_address
from truedraft.cli._printable import escaped
from truedraft.cli._records import check_records
from truedraft.contract import InputError
from truedraft.diagnose.case import case_from_json
from truedraft.diagnose.redact import Identity, leaks

WIDTH = 110


def check_output(path: Path, inputs: tuple[str, ...]) -> None:
    """Refuse, before any work, a place that the file must not or cannot replace."""
    if str(path) == "-":
        raise InputError("-o: found -, expected a file (--json prints the object as well)")
    check_records(path, None)
    for name in inputs:
        if name == "-" or is_address(name):
            continue
        if _same(path, Path(name)):
            raise InputError(f"{path}: found an input, expected another file for the report")
        if (
            os.path.isdir(name)
            and path.exists()
            and any(_same(path, inside) for inside in Path(name).iterdir())
        ):
            raise InputError(f"{path}: found a file of the pair, expected another file for the report")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
    except (OSError, RuntimeError):
        return False


def checked_text(report: Mapping[str, Any], identity: Identity, path: Path) -> str:
    """The file's text. Raises `InputError` if anything private is in it or `diagnose` could not read it."""
    text = layout(report) + "\n"
    read = json.loads(text)
    if found := leaks(read, identity):
        shown = ", ".join("#" + where for where in found[:3])
        raise InputError(
            f"{path}: found something private left at {shown:.200}, expected none: not written (our bug)"
        )
    case_from_json(read["case"], str(path), "/case")
    return text


def layout(value: Any, indent: int = 0) -> str:
    """JSON for readers: what fits on a line stays on one. No controls, no lone surrogates."""
    text = escaped(json.dumps(value, ensure_ascii=False, allow_nan=False))
    if indent and (not isinstance(value, dict | list | tuple) or not value or len(text) + indent <= WIDTH):
        return text
    inner = " " * (indent + 1)
    if isinstance(value, Mapping):
        rows = [
            f"{inner}{escaped(json.dumps(k, ensure_ascii=False))}: {layout(v, indent + 1)}"
            for k, v in value.items()
        ]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    rows = [inner + layout(entry, indent + 1) for entry in value]
    return "[\n" + ",\n".join(rows) + "\n" + " " * indent + "]"
