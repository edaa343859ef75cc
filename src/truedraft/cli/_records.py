"""Acceptance records as a JSONL file: written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from truedraft.contract import AcceptanceRecord, InputError


def check_records(path: Path, prompt_file: Path | None) -> None:
    """Refuse, before any work, a place that records must not or cannot replace."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:  # Python 3.11 raises RuntimeError for a loop of links
        raise InputError(f"{path}: {error}, expected a writable file") from None
    if real.exists() and not real.is_file():
        raise InputError(f"{path}: found something else than a file, expected a new or a regular file")
    if not real.name or not real.parent.is_dir():
        raise InputError(f"{path}: expected a path in an existing directory")
    if prompt_file is not None and real == prompt_file.resolve():
        raise InputError(f"{path}: found the prompt file, expected another file for the records")
    if real.exists() and not os.access(real, os.W_OK):
        raise InputError(f"{path}: Permission denied, expected a writable file")
    try:  # what `write_records` will do: file systems refuse for more reasons than permissions
        with tempfile.NamedTemporaryFile(dir=real.parent):
            pass
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a writable file") from None


def write_records(path: Path, records: Iterable[AcceptanceRecord]) -> None:
    """One line per record; as `write_text`."""
    write_text(path, "".join(json.dumps(record.to_json(), allow_nan=False) + "\n" for record in records))


def write_text(path: Path, text: str) -> None:
    """Write beside `path`, then put the file in its place: whole or not at all. Raises `InputError`."""
    real, partial = path.resolve(), None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=real.parent, delete=False) as file:
            partial = Path(file.name)
            file.write(text)
        partial.chmod(0o644)
        partial.replace(real)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a writable file") from None
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
