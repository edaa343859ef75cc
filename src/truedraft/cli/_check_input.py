"""What `truedraft check` is given beside the pair's directories."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from truedraft.cli._pair import local_pair
from truedraft.cli._prompts import gather
from truedraft.cli._record_input import parse_records
from truedraft.contract import AcceptanceRecord, InputError
from truedraft.formats import Inspection, inspect
from truedraft.formats.engines import BootLine, read_boot_log

LOG_BYTES = 64 * 2**20
LINE_BYTES = 2**18


@contextmanager
def pair_of(
    target: str, draft: str | None, overrides: tuple[str, ...], *, network: bool, weights: bool, quiet: bool
) -> Iterator[Inspection]:
    """The pair, read from directories, or with `network` from a hub; files exist until the end."""
    with local_pair(target, draft, network=network, weights=weights, quiet=quiet) as names:
        yield inspect(*names, overrides)


def boot_lines(path: Path) -> tuple[BootLine, ...]:
    """The lines of a boot log that name layers, one per set of ids; `InputError` if there is none.

    Logs of restarts repeat themselves, and every rank prints its own line.
    """
    lines: dict[tuple[int, ...], BootLine] = {}
    with _opened(path) as file:
        for line in read_boot_log(_decoded(file, path)):
            lines.setdefault(line.layer_ids, line)
    if not lines:
        raise InputError(
            f"{path}: found no line that names auxiliary layers, expected one such as "
            "'Using auxiliary layers from speculative config: (40, 41, 42)'"
        )
    return tuple(lines.values())


def prompt_texts(path: Path) -> tuple[str, ...]:
    """The texts of a prompt file."""
    entries, _ = gather("", (), path)
    return tuple(str(entry.get("text", entry.get("tokens"))) for entry in entries)


def records_of(path: Path) -> tuple[AcceptanceRecord, ...]:
    """Acceptance records from JSON lines; `InputError` naming the first bad line."""
    with _opened(path) as file:
        data = file.read(LOG_BYTES + 1)
    if len(data) > LOG_BYTES:
        raise InputError(f"{path}: found more than {LOG_BYTES} bytes, expected a text file")
    return parse_records(data, str(path))


def _decoded(file: BinaryIO, path: Path) -> Iterator[str]:
    """The lines of a log one by one, so that a large one costs no memory; absurdly long ones in parts."""
    count = 0
    while line := file.readline(LINE_BYTES):
        count += len(line)
        if count > LOG_BYTES:
            raise InputError(f"{path}: found more than {LOG_BYTES} bytes, expected a text file")
        yield line.decode("utf-8", errors="replace")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file of that name, or stdin for `-`; what fails is an `InputError`."""
    try:
        if str(path) != "-":
            with path.open("rb") as file:
                yield file
        elif sys.stdin is None:  # closed by the caller: `<&-`
            raise InputError("-: stdin is closed, expected a text file")
        else:
            yield sys.stdin.buffer
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a text file") from None
