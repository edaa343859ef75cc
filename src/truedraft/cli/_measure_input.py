"""What `truedraft measure` reads: files, stdin, and addresses if the user allows the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from truedraft.cli._record_input import parse_records
from truedraft.cli._text_file import opened
from truedraft.contract import AcceptanceRecord, InputError
from truedraft.measure.sources import SOURCES, Item, Summary, read_source, scrape_before

CHUNK = 2**20

Watch = Callable[[Iterable[Item]], Iterable[Item]]


def is_address(name: str) -> bool:
    """Whether this is an address and no file."""
    return name.startswith(("http://", "https://"))


def parts_of(name: str, network: bool) -> Iterator[bytes]:
    """The bytes of a file, of stdin (`-`) or of an address. Raises `InputError`."""
    if not is_address(name):
        with opened(Path(name)) as file:
            while part := file.read(CHUNK):
                yield part
        return
    if not network:
        raise InputError(f"{name}: found an address, expected --network to allow it")
    from truedraft.measure.server import Address, fetch

    yield fetch(Address.parse(name, path=True))


def one_record(line: bytes, where: str) -> AcceptanceRecord:
    """One of our own records, read as `check --records` reads it."""
    name, _, number = where.rpartition(":")
    lines = [(int(number), line)] if number.isdecimal() else [(1, line)]
    return parse_records(lines, name if number.isdecimal() else where)[0]


def summarise(
    names: tuple[str, ...],
    *,
    only: str | None,
    before: str | None,
    width: int | None,
    network: bool,
    keep_records: bool,
    watch: Watch | None = None,
) -> Summary:
    """All sources pooled; `watch` sees every item. Raises `InputError` for a file with nothing in it."""
    if before is not None and len(names) != 1:
        raise InputError(f"found --before with {len(names)} sources, expected it with one")
    earlier = None if before is None else scrape_before(parts_of(before, network), before)
    summary = Summary(keep_records=keep_records)
    for name in names:
        items = read_source(parts_of(name, network), name, one_record, only=only, before=earlier, width=width)
        if not summary.take(items if watch is None else watch(items)):
            first = next((w for w in summary.warnings if w.startswith(name)), "")
            what = f"found nothing usable ({first.removeprefix(name).lstrip(':')})" if first else "found none"
            expected = only or "one of " + ", ".join(dict.fromkeys(SOURCES))
            raise InputError(f"{name}: {what}, expected acceptance figures: {expected}")
    summary.settle()
    if before is not None and all(group.source != "prometheus" for group in summary.groups.values()):
        raise InputError(f"{names[0]}: found no counters, expected a /metrics scrape as with --before")
    return summary
