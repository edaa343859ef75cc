"""What `diagnose` reads in logs beside pooled figures: signs, resolved layer ids, acceptance over time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from truedraft.cli._log_lines import lines_with
from truedraft.cli._text_file import opened
from truedraft.diagnose.catalogue import catalogue
from truedraft.diagnose.trends import HOUR, Trend, by_time
from truedraft.formats.engines import BootLine, read_boot_log
from truedraft.measure.sources import Item, Observation

MOST_SIGNS = 1000
SHOWN = 400
"""Characters of a line that are kept."""

BOOT_WORDS = ("auxiliary layers from",)

INTERVAL = 10.0
"""Seconds of vLLM's log intervals, where its lines tell no time."""

ENDS = 2**16
"""Bytes at both ends of a log in which its first and last time are looked for."""

_TIME = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")


def signs(paths: Iterable[Path], *, quiet: bool) -> Iterator[tuple[str, str]]:
    """(where, text) of lines that a sign of the catalogue matches; every different text of a sign once."""
    known = catalogue().lines.values()
    words = tuple(dict.fromkeys(word for sign in known for word in sign.words))
    seen: set[tuple[str, str]] = set()
    for path in paths:
        for number, text in lines_with(path, words, quiet=quiet):
            for sign in known:
                found = sign.pattern.search(text)
                if found is not None and (sign.name, found[0]) not in seen and len(seen) < MOST_SIGNS:
                    seen.add((sign.name, found[0]))
                    yield f"{path.name}:{number}", text.strip()[:SHOWN]


def boot_lines(paths: Iterable[Path], *, quiet: bool) -> Iterator[BootLine]:
    """Layer ids as the engine resolved them."""
    for path in paths:
        for number, text in lines_with(path, BOOT_WORDS, quiet=quiet):
            yield from (replace(line, number=number) for line in read_boot_log((text,)))


@dataclass
class Series:
    """Log intervals in order, of one file: (number, "", rounds, accepted), for `by_time`."""

    cells: list[tuple[float, str, int, int]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    source: str = ""

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """Pass the items on and keep the intervals."""
        for item in items:
            if isinstance(item, Observation) and item.scope == "interval" and not item.contradiction:
                bounds = (item.rounds, item.rounds) if item.rounds is not None else item.rounds_between
                if bounds is not None and item.accepted is not None and bounds[1]:
                    self.source = item.source
                    self.files.add(item.where.rpartition(":")[0])
                    self.cells.append((float(len(self.cells)), "", sum(bounds) // 2, item.accepted))
            yield item

    def trend(self) -> Trend | None:
        """Acceptance since the start; `None` if the log is shorter than an hour, or there are several."""
        if len(self.files) != 1:
            return None
        seconds = _duration(Path(next(iter(self.files))))
        if seconds is None and self.source == "vllm-log":
            seconds = INTERVAL * len(self.cells)
        return by_time(self.cells, "log intervals") if (seconds or 0.0) >= HOUR else None


def _duration(path: Path) -> float | None:
    """Seconds between the first and the last time that a log prints; `None` if it prints none."""
    if not path.is_file():
        return None
    with opened(path) as file:
        first = _TIME.search(file.read(ENDS).decode("ascii", errors="replace"))
        file.seek(max(0, path.stat().st_size - ENDS))
        times = list(_TIME.finditer(file.read(ENDS).decode("ascii", errors="replace")))
    if first is None or not times:
        return None
    try:
        begin, end = (
            datetime(int(t[1] or 2000), *(int(t[i]) for i in range(2, 7)))  # type: ignore[arg-type]
            for t in (first, times[-1])
        )
    except ValueError:
        return None
    seconds = (end - begin).total_seconds()
    return seconds if seconds >= 0 or first[1] else seconds + 366 * 86400.0  # over New Year
