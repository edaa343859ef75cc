"""Reads texts and bytes as `truedraft measure` would, without files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from truedraft.cli._measure_input import one_record
from truedraft.measure.sources import Summary, read_source, scrape_before


def summary(*texts: str | bytes, **options: Any) -> Summary:
    """All texts as files f0, f1, …; every one ends with a line end unless it is given as bytes."""
    found = Summary(keep_records=True)
    if isinstance(options.get("before"), str):
        options["before"] = scrape_before([options["before"].encode()], "before")
    for number, text in enumerate(texts):
        data = text if isinstance(text, bytes) else (text.rstrip("\n") + "\n").encode()
        found.take(read_source([data], f"f{number}", one_record, **options))
    found.settle()
    return found


def figures(found: Summary) -> dict[str, Any]:
    """The figures of `acceptance`, without what is absent."""
    pooled = found.acceptance.to_json()
    return {key: value for key, value in pooled.items() if value not in (None, []) and key != "definition"}


def chunks(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """`data` cut into parts of these sizes, the rest as the last one."""
    parts, start = [], 0
    for size in sizes:
        parts.append(data[start : start + size])
        start += size
    return [*parts, data[start:]]
