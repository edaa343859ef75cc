"""Record files to arms: which files are A and which B, and which records are which boot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from truedraft.cli._record_input import parse_records
from truedraft.cli._text_file import numbered_lines
from truedraft.contract import AcceptanceRecord, InputError
from truedraft.stats import Arm

BETWEEN = "vs"
"""Stands between the files of A and those of B."""


def sides(files: Sequence[str], one_side: bool) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The files of A and of B: two files, or several on each side of `vs`; `one_side`: all files are both."""
    if BETWEEN in files:
        at = list(files).index(BETWEEN)
        a, b = files[:at], files[at + 1 :]
    elif one_side:
        a = b = files
    else:
        a, b = files[:1], files[1:]
        if len(b) > 1:
            raise InputError(
                f"found {len(files)} files, expected 2, or `vs` between those of A and those of B, "
                "or both of --arm-a and --arm-b"
            )
    for name, side in (("A", a), ("B", b)):
        if not side or BETWEEN in side:
            raise InputError(f"found no file of {name}, expected A.jsonl B.jsonl or A.jsonl … vs B.jsonl …")
        twice = next((file for file in side if list(side).count(file) > 1), None)
        if twice is not None:
            raise InputError(f"{twice}: found twice in {name}, expected every boot once")
    return tuple(map(Path, a)), tuple(map(Path, b))


def records_in(path: Path) -> Iterator[AcceptanceRecord]:
    """The records of a file one by one, none held longer than its line; `InputError` for a bad one."""
    empty = True
    for number, line in numbered_lines(path):
        if line.strip():
            empty = False
            yield from parse_records([(number, line)], str(path))
    if empty:
        raise InputError(f"{path}: found no record, expected one JSON object per line")


def _booted(files: Iterable[Path], boots_from_files: bool) -> Iterator[tuple[AcceptanceRecord, str]]:
    """Records and their boots. Two files with one prompt of one boot are refused.

    It may be two boots under one name; the `InputError` names both files.
    """
    seen: dict[tuple[str, str, str], Path] = {}
    for position, path in enumerate(files, start=1):
        for record in records_in(path):
            boot = f"file {position}" if boots_from_files or not record.boot else record.boot
            first = seen.setdefault((record.arm, boot, record.prompt_id), path)
            if first != path:
                raise InputError(
                    f"{path}: found prompt {record.prompt_id!r:.80} of boot {boot!r:.40}, as in {first}, "
                    "expected another boot or arm in every file, or --boots-from-files"
                )
            yield record, boot


def read_arm(name: str, files: Iterable[Path], only: str | None, *, boots_from_files: bool) -> Arm:
    """One arm from its files. `only`: the value of `arm` in the records that are wanted; `None`: all are.

    A record that names no boot belongs to the boot of its file; with `boots_from_files` every record does.
    Raises `InputError` for a bad line, for an arm that is not there, or for arms that nobody chose between.
    """
    arm, found = Arm(name), dict[str, str]()
    for record, boot in _booted(files, boots_from_files):
        found.setdefault(record.arm, name)
        if only is None or record.arm == only:
            arm.add(record, boot)
    if only is not None and only not in found:
        there = ", ".join(repr(name)[:40] for name in list(found)[:8])
        raise InputError(f"{name}: found no record with arm {only!r:.80}, only {there}")
    if only is None and len(found) > 1:
        two = " and ".join(repr(arm)[:40] for arm in list(found)[:2])
        raise InputError(
            f"{name}: found records of the arms {two}, expected one: choose with --arm-a, --arm-b"
        )
    return arm


def named(letter: str, only: str | None, files: Sequence[Path]) -> str:
    """What an arm is called in the output: by its files, or by the arm chosen."""
    if only is not None:
        return f"{letter}: {only}"
    folders = {file.parent for file in files}
    if len(files) > 1 and len(folders) == 1 and (folder := folders.pop().name):
        return f"{letter}: {folder} ({len(files)} files)"
    return f"{letter}: {files[0].name}" + (f" +{len(files) - 1}" if len(files) > 1 else "")


def percentage(text: str, option: str) -> float:
    """`2%` or `2 %` as 0.02; `InputError` for anything else or outside (0, 100)."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*%\s*", text)
    value = float(match[1]) / 100 if match else 0.0
    if not 0 < value < 1:
        raise InputError(
            f"{option}: found {text!r:.40}, expected a percentage between 0% and 100%, such as 2%"
        )
    return value


def read_arms(files: Iterable[Path], *, boots_from_files: bool) -> list[Arm]:
    """One arm per value of `arm` in the records, boots as for `read_arm`."""
    arms: dict[str, Arm] = {}
    for record, boot in _booted(files, boots_from_files):
        arms.setdefault(record.arm, Arm(f"arm {record.arm!r:.40}")).add(record, boot)
    return list(arms.values())
