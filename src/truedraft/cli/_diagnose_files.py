"""Files that `diagnose` takes beside figures: collected ones, probes, our own runs' reports."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from truedraft.cli._measure_input import is_address
from truedraft.cli._text_file import opened
from truedraft.contract import InputError
from truedraft.formats._json import parse_object

COLLECTED = "truedraft collect"
"""`kind` of a collected file."""

MOST_JSON = 64 * 2**20


def check_files(names: Iterable[str]) -> None:
    """Refuse what cannot be read more than once (pipes, devices), and a file that is given twice.

    Raises `InputError`. `-` and addresses are no files; what is missing is left to its reader.
    """
    seen: dict[tuple[int, int], str] = {}
    for name in names:
        if name == "-" or is_address(name):
            continue
        try:
            found = os.stat(name)
        except (OSError, ValueError):
            continue
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise InputError(f"{name}: found a pipe or a device, expected a file: it is read more than once")
        place = (found.st_dev, found.st_ino)
        if place in seen:
            raise InputError(f"{name}: found twice ({seen[place]}), expected every figure once")
        seen[place] = name


def collected_report(sources: tuple[str, ...]) -> tuple[str, dict[str, Any]] | None:
    """Name and object of a file that `collect` wrote, if a source is one. Raises `InputError`."""
    for name in sources:
        data = None if is_address(name) or name == "-" else _collected(Path(name))
        if data is None:
            continue
        if len(sources) > 1:
            raise InputError(f"{name}: found beside other files, expected a collected file alone")
        if data.get("schema") != 1:
            raise InputError(f"{name}#/schema: found {data.get('schema')!r:.40}, expected 1")
        if not isinstance(data.get("case"), dict):
            raise InputError(f"{name}#/case: found {data.get('case')!r:.40}, expected an object")
        return name, data
    return None


def is_collected(path: Path) -> bool:
    """Whether `collect` wrote this file, or somebody laid it out anew. Raises `InputError`."""
    return _collected(path) is not None


def _collected(path: Path) -> dict[str, Any] | None:
    with opened(path) as file:
        head = file.read(4096)
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return None
        early = f'"{COLLECTED}"'.encode() in head
        data = head + file.read(MOST_JSON + 1 - len(head))
    if len(data) > MOST_JSON:
        if early:
            raise InputError(f"{path}: found more than {MOST_JSON} bytes, expected a smaller file")
        return None
    if f'"{COLLECTED}"'.encode() not in data:
        return None
    try:
        found = parse_object(data, str(path), entries=MOST_JSON)
    except InputError:
        if early:
            raise
        return None  # lines of JSON, one of which mentions it
    return found if found.get("kind") == COLLECTED else None


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `InputError`."""
    with opened(path) as file:
        data = file.read(MOST_JSON + 1)
    if len(data) > MOST_JSON:
        raise InputError(f"{path}: found more than {MOST_JSON} bytes, expected a smaller file")
    return parse_object(data, str(path), entries=MOST_JSON)


def probe_verdicts(path: Path | None) -> dict[str, Any]:
    """Of the JSON of `probe` or `doctor` what `diagnose` needs. Raises `InputError`."""
    if path is None:
        return {}
    report = read_object(path)
    found = report.get("probe", report)
    if found is None:
        raise InputError(f"{path}#/probe: found null, expected the JSON of `truedraft probe --json`")
    if not isinstance(found, dict) or not isinstance(found.get("axes"), dict):
        raise InputError(f"{path}#/axes: missing, expected the JSON of `truedraft probe --json`")
    return {"axes": {axis: _verdict(path, axis, entry) for axis, entry in found["axes"].items()}}


def _verdict(path: Path, axis: str, entry: Any) -> dict[str, Any]:
    verdict = entry.get("verdict") if isinstance(entry, dict) else None
    if not isinstance(verdict, str):
        raise InputError(f"{path}#/axes/{axis:.60}/verdict: found {verdict!r:.40}, expected text")
    return {"verdict": verdict, "value": entry.get("value"), "best": entry.get("best")}


def lossless_of(sources: tuple[str, ...]) -> tuple[int, int] | None:
    """(identical or tied, compared) outputs, added up over JSON of our own runs; `None` if none says."""
    same = of = 0
    for name in sources:
        if name == "-" or is_address(name) or not name.endswith(".json"):
            continue
        with opened(Path(name)) as file:
            data = file.read(MOST_JSON + 1)
        if b'"lossless"' not in data or len(data) > MOST_JSON:
            continue
        try:
            report = parse_object(data, name, entries=MOST_JSON)
        except InputError:
            continue  # lines of JSON, or damaged: the reader of figures says so
        inner = report.get("output")
        entry = report.get("lossless", inner.get("lossless") if isinstance(inner, dict) else None)
        if isinstance(entry, Mapping):
            counts = [entry.get(key, 0) for key in ("identical", "ties", "of")]
            if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in counts) or (
                counts[0] + counts[1] > counts[2]
            ):
                raise InputError(
                    f"{name}#/lossless: found {dict(entry)!r:.80}, expected counts: identical + ties <= of"
                )
            same, of = same + counts[0] + counts[1], of + counts[2]
    return (same, of) if of else None
