"""One file, whatever is in it: detection by content, and the names that force a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from truedraft.contract import InputError
from truedraft.measure.sources import json_source, text_source
from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.encoding import recoded
from truedraft.measure.sources.json_source import JsonSource, ReadRecord, is_json
from truedraft.measure.sources.lines import Line, cleaned
from truedraft.measure.sources.observation import Item, Notice, Observation
from truedraft.measure.sources.prometheus import Reader as Scrape

SOURCES = (
    json_source.RECORDS,
    *(name for name in json_source.KINDS if not name.endswith("-bare") and name != "vllm-bench"),
    *(name for names in text_source.KINDS for name in names),
)
"""Names for `--source`."""

MOST_LINE = 2**20
"""Longer lines are no log lines (a prompt with an image, say): they are passed over, and it is said."""

MOST_JSON = 512 * 2**20
"""JSON is held in memory whole; logs are read line by line and may have any size."""


def read_source(
    parts: Iterable[bytes],
    where: str,
    read_record: ReadRecord,
    *,
    only: str | None = None,
    before: Scrape | None = None,
    width: int | None = None,
) -> Iterator[Item]:
    """What the file `where` says, from its bytes in `parts`.

    `only`: a name of `SOURCES`. `before`: an earlier scrape of the same server. `width`: K, where the source
    does not tell it. Raises `InputError` for JSON that is none.
    """
    stream = recoded(iter(parts))
    head = b""
    for part in stream:
        head += part
        if head.strip():
            break
    rest = chain([head], stream)
    items = _json(rest, where, read_record, only) if is_json(head[:64]) else _text(rest, where, only, before)
    for item in items:
        yield _with_width(item, width) if width and isinstance(item, Observation) else item


def _with_width(seen: Observation, width: int) -> Observation:
    """`seen` with K as the user knows it, judged once more."""
    if seen.width is not None or seen.contradiction:
        return seen
    rate = next((f for f in seen.stated if f.name.endswith("acceptance rate")), None)
    return settled(replace(seen, width=width), rate)


def _json(parts: Iterable[bytes], where: str, read_record: ReadRecord, only: str | None) -> Iterator[Item]:
    source, held, size = JsonSource(where, read_record, only), list[bytes](), 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size > MOST_JSON:
            raise InputError(f"{where}: found more than {MOST_JSON} bytes of JSON, expected a smaller file")
    yield from source.items(b"".join(held).removeprefix(b"\xef\xbb\xbf"))
    if source.log_lines:
        yield from text_source.text_items(source.log_lines, where, only, None, lambda: True)


def _text(parts: Iterable[bytes], where: str, only: str | None, before: Scrape | None) -> Iterator[Item]:
    state = {"ended": True}
    notices: list[Item] = []
    lines = numbered(parts, where, state, notices)
    yield from text_source.text_items(lines, where, only, before, lambda: state["ended"])
    yield from notices


def numbered(
    parts: Iterable[bytes], where: str, state: dict[str, bool], notices: list[Item]
) -> Iterator[Line]:
    """Clean lines with their numbers. `state["ended"]` says afterwards whether the last one had an end."""
    number, open_part, skipping = 0, b"", False
    for part in parts:
        *whole, tail = (open_part + part).split(b"\n")
        for line in whole:
            number += 1
            if skipping or len(line) > MOST_LINE:
                notices.append(
                    Notice(f"{where}:{number}", "long", f"line of more than {MOST_LINE} bytes: not read")
                )
                skipping = False
            else:
                yield from ((number, cleaned(piece)) for piece in _pieces(line))
        open_part = tail
        if len(open_part) > MOST_LINE:
            open_part, skipping = b"", True
    state["ended"] = (not open_part or open_part.endswith(b"\r")) and not skipping
    if open_part and not skipping:
        yield from ((number + 1, cleaned(piece)) for piece in _pieces(open_part))


def _pieces(line: bytes) -> Iterator[bytes]:
    """What a progress bar wrote over each other: every piece is a line of its own."""
    *bar, last = line.rstrip(b"\r").split(b"\r")
    yield from filter(None, bar)
    yield last


def scrape_before(parts: Iterable[bytes], where: str) -> Scrape:
    """A scrape to subtract from a later one. Raises `InputError` if it holds no counters."""
    scrape = text_source.scrape_of(numbered(parts, where, {}, []), where)
    if not scrape.series():
        raise InputError(
            f"{where}: found no speculative-decoding counters, expected an earlier /metrics scrape"
        )
    return scrape
