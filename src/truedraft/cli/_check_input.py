"""What `truedraft check` is given beside the pair's directories."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from truedraft.cli._prompts import gather
from truedraft.contract import AcceptanceRecord, InputError
from truedraft.formats import Inspection, inspect
from truedraft.formats.engines import BootLine, read_boot_log

LOG_BYTES = 64 * 2**20


@contextmanager
def pair_of(
    target: str, draft: str | None, overrides: tuple[str, ...], *, network: bool, weights: bool
) -> Iterator[Inspection]:
    """The pair, read from directories."""
    yield inspect(target, draft, overrides)


def boot_lines(path: Path) -> tuple[BootLine, ...]:
    """The lines of a boot log that name layers; `InputError` if there is none."""
    text = _text(path)
    lines = tuple(read_boot_log(text.splitlines()))
    if not lines:
        raise InputError(
            f"{path}: found no line that names auxiliary layers, expected one such as "
            "'Using auxiliary layers from speculative config: (40, 41, 42)'"
        )
    return lines


def prompt_texts(path: Path) -> tuple[str, ...]:
    """The texts of a prompt file."""
    entries, _ = gather("", (), path)
    return tuple(str(entry.get("text", entry.get("tokens"))) for entry in entries)


def records_of(path: Path) -> tuple[AcceptanceRecord, ...]:
    """Acceptance records from JSON lines; `InputError` naming the first bad line."""
    records = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if line.strip():
            try:
                records.append(AcceptanceRecord(**json.loads(line)))
            except (ValueError, TypeError, RecursionError):
                raise InputError(f"{path}:{number}: not a record of acceptance") from None
    return tuple(records)


def _text(path: Path) -> str:
    try:
        data = sys.stdin.buffer.read(LOG_BYTES + 1) if str(path) == "-" else _read(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a text file") from None
    if len(data) > LOG_BYTES:
        raise InputError(f"{path}: found more than {LOG_BYTES} bytes, expected a text file")
    return data.decode("utf-8", errors="replace")


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LOG_BYTES + 1)
