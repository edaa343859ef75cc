"""What `truedraft check` is given beside the pair's directories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from truedraft.cli._pair import local_pair
from truedraft.cli._prompts import gather
from truedraft.cli._record_input import parse_records
from truedraft.cli._text_file import FILE_BYTES, numbered_lines, opened
from truedraft.contract import AcceptanceRecord, InputError
from truedraft.formats import Inspection, inspect
from truedraft.formats.engines import BootLine, read_boot_log

MOST_IDS = 32
"""Different sets of ids in one log that are explained."""


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
    for line in read_boot_log(_log_lines(path)):
        lines.setdefault(line.layer_ids, line)
        if len(lines) == MOST_IDS:
            break
    if not lines:
        raise InputError(
            f"{path}: found no line that names auxiliary layers, expected one such as "
            "'Using auxiliary layers from speculative config: (40, 41, 42)'"
        )
    return tuple(lines.values())


def prompt_texts(path: Path) -> tuple[str, ...]:
    """The texts of a prompt file, checked as `run` checks them; token ids in brackets where it has ids."""
    entries, _ = gather((), path)
    return tuple(_prompt(entry) for entry in entries)


def _prompt(entry: dict[str, Any]) -> str:
    name, text, ids = str(entry["id"]), entry.get("text"), entry.get("tokens")
    if "tokens" not in entry:
        if not isinstance(text, str) or not text:
            raise InputError(f"prompt {name:.80}: found {text!r:.80}, expected text")
        return text
    if not isinstance(ids, list) or not ids or not all(_is_id(token) for token in ids):
        raise InputError(f"prompt {name:.80}: found {ids!r:.80}, expected tokens to be a list of token ids")
    return str(ids)


def _is_id(token: object) -> bool:
    return isinstance(token, int) and not isinstance(token, bool) and 0 <= token < 2**53


def records_of(path: Path) -> tuple[AcceptanceRecord, ...]:
    """Acceptance records from JSON lines; `InputError` naming the first bad line."""
    return parse_records(numbered_lines(path), str(path))


def _log_lines(path: Path) -> Iterator[str]:
    """The lines of a log up to `FILE_BYTES`, what follows is not read; absurdly long ones in parts."""
    count = 0
    with opened(path) as file:
        while count < FILE_BYTES and (line := file.readline(2**18)):
            count += len(line)
            yield line.decode("utf-8", errors="replace")
