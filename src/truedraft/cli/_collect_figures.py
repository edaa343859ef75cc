"""Figures in a collected file: pooled, per source, per arm, and by cached tokens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from truedraft.cli._diagnose_given import Given
from truedraft.cli._log_lines import lines_with
from truedraft.cli._measure_input import is_address, summarise
from truedraft.cli._slow import told_when_slow
from truedraft.contract import AcceptanceRecord, acceptance
from truedraft.measure.sources import Summary

RATE_WORDS = ("prefix cache hit rate", "vllm:prefix_cache_")
HIT_RATE = re.compile(r"Prefix cache hit rate: (\d{1,3}(?:\.\d{1,3})?)%")
COUNTER = re.compile(r"vllm:prefix_cache_(queries|hits)(?:_total)?(?:\{[^}]*\})? ([0-9.eE+]+)")


def figures_json(summary: Summary | None, sources: tuple[str, ...], given: Given) -> dict[str, Any] | None:
    """`pooled`, and `sources` one by one if there are several; addresses and stdin are not read again."""
    if summary is None:
        return None
    files = [name for name in sources if not is_address(name) and name != "-"]
    apart = [
        {"source": name, **_figures(_summary(name, given.width, given))}
        for name in (files if len(sources) > 1 else [])
    ]
    return {"pooled": _figures(summary), "sources": apart}


def arms_json(given: Given) -> dict[str, Any]:
    """Arm -> figures. Raises `InputError` for a file without any."""
    arms = given.named_arms
    return {name: {"source": file, **_figures(_summary(file, None, given))} for name, file in arms.items()}


def _summary(name: str, width: int | None, given: Given) -> Summary:
    with told_when_slow(given.quiet, "reading") as tell:
        tell(name)
        return summarise(
            (name,), only=None, before=None, width=width, network=given.network, keep_records=True
        )


def _figures(summary: Summary) -> dict[str, Any]:
    """As `truedraft measure --json`, with the K of the drafts."""
    widths = sorted({k for group in summary.chosen for k in group.pool.widths})
    return {"K": widths, **{k: v for k, v in summary.to_json().items() if k != "schema"}}


def cached_json(summary: Summary | None, sources: tuple[str, ...], given: Given) -> dict[str, Any] | None:
    """Share of cached prompt tokens and figures with and without, from records; hit rates that sources print.

    `None` if no source tells anything: a record of another engine without cached tokens may not know them.
    """
    records = [] if summary is None else summary.records
    told = any(record.cached_tokens for record in records) or any(r.engine == "truedraft" for r in records)
    out: dict[str, Any] = {}
    if told:
        prompt, cached = sum(r.prompt_tokens for r in records), sum(r.cached_tokens for r in records)
        out["records"] = {
            "requests": len(records),
            "requests_with_cached_tokens": sum(r.cached_tokens > 0 for r in records),
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "share": cached / prompt if prompt else None,
            "without_cached": _acceptance([r for r in records if not r.cached_tokens]),
            "with_cached": _acceptance([r for r in records if r.cached_tokens]),
        }
    if printed := [rate for name in sources if (rate := _hit_rate(name, given.quiet)) is not None]:
        out["printed"] = printed
    return out or None


def _acceptance(records: list[AcceptanceRecord]) -> dict[str, Any] | None:
    return acceptance(records).to_json() if records else None


def _hit_rate(name: str, quiet: bool) -> dict[str, Any] | None:
    """The last hit rate of a log, or hits / queries of a scrape of vLLM's counters."""
    if is_address(name) or name == "-":
        return None
    last, counts = None, {"queries": 0.0, "hits": 0.0}
    for _, line in lines_with(Path(name), RATE_WORDS, quiet=quiet):
        if (found := HIT_RATE.search(line)) is not None:
            last = float(found[1]) / 100
        if (counter := COUNTER.match(line)) is not None:
            try:
                counts[counter[1]] += float(counter[2])
            except ValueError:
                continue
    if 0 < counts["queries"] < float("inf"):
        last = counts["hits"] / counts["queries"]
    return (
        None
        if last is None or not 0 <= last <= 1
        else {"source": name, "prefix_cache_hit_rate": round(last, 4)}
    )
