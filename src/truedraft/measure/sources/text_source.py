"""Text sources: every reader looks at the lines that carry its words, so that one log may hold several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from truedraft.measure.sources import (
    llama_cpp,
    prometheus,
    sglang_finish,
    sglang_gauges,
    sglang_log,
    vllm_log,
    vllm_old,
    vllm_summary,
)
from truedraft.measure.sources.lines import MOST_PARTS, Line
from truedraft.measure.sources.observation import Item, Notice


class Reader(Protocol):
    """Takes the lines of one file, one by one."""

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """What is known once this line is read."""

    def finish(self) -> Iterator[Item]:
        """What was still open at the end of the file."""

    @property
    def pending(self) -> bool:
        """Whether anything is still open."""


CUT = "\ufffd"
"""Stands behind a last line without end: no number can end there that has no end of its own."""

KINDS: dict[tuple[str, ...], tuple[re.Pattern[str], Callable[[str], Reader]]] = {
    (vllm_log.NAME,): (vllm_log.MARKER, vllm_log.Reader),
    (vllm_old.NAME,): (vllm_old.MARKER, vllm_old.Reader),
    (vllm_summary.NAME, vllm_summary.EXAMPLE): (vllm_summary.MARKER, vllm_summary.Reader),
    (prometheus.NAME, sglang_gauges.NAME): (prometheus.MARKER, prometheus.Reader),
    (sglang_log.NAME, sglang_log.BENCH): (sglang_log.MARKER, sglang_log.Reader),
    (sglang_finish.NAME,): (sglang_finish.MARKER, sglang_finish.Reader),
    (llama_cpp.NAME,): (llama_cpp.MARKER, llama_cpp.Reader),
}
"""Names -> the words of a line that concerns the reader, and the reader."""


_DECIMALS = re.compile(r"(?:\.\d\d|\.0)\s*$")
"""Ends of numbers that are printed with so many decimals."""


def text_items(
    lines: Iterable[Line],
    where: str,
    only: str | None,
    before: prometheus.Reader | None,
    ends: Callable[[], bool],
) -> Iterator[Item]:
    """What all readers find. `before`: an earlier scrape. `ends()`: whether the last line had an end."""
    kinds = {names: kind for names, kind in KINDS.items() if only is None or only in names}
    readers = {names: make(where) for names, (_, make) in kinds.items()}
    scrape = readers.get((prometheus.NAME, sglang_gauges.NAME))
    if before is not None and isinstance(scrape, prometheus.Reader):
        scrape.before = before.series()
    attentive = dict.fromkeys(readers, 0)
    previous: Line = (0, "")
    last: Line = previous
    for number, line in _marked(lines, ends):
        for names, (marker, _) in kinds.items():
            if marker.search(line):
                if attentive[names] < number - 1 and previous[0] == number - 1:
                    yield from readers[names].feed(*previous)  # a wrapped statement may begin there
                attentive[names] = number + MOST_PARTS
            if number <= attentive[names]:
                yield from readers[names].feed(number, line)
        previous = last = (number, line)
    if not ends() and any(readers[n].pending and kinds[n][0].search(last[1]) for n in readers):
        yield Notice(f"{where}:{last[0]}", "open", "the file ends within a line: its last number may be cut")
    for reader in readers.values():
        yield from reader.finish()


def _marked(lines: Iterable[Line], ends: Callable[[], bool]) -> Iterator[Line]:
    """The lines; a last one that has no end, and whose last number may be cut, with `CUT` behind it."""
    held: Line | None = None
    for line in lines:
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held if ends() or _DECIMALS.search(held[1]) else (held[0], held[1] + CUT)


def scrape_of(lines: Iterable[Line], where: str) -> prometheus.Reader:
    """The counters of a scrape that is to be subtracted from a later one."""
    reader = prometheus.Reader(where)
    for number, line in lines:
        if prometheus.MARKER.search(line):
            for _ in reader.feed(number, line):
                pass
    return reader
