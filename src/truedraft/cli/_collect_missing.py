"""Which of the seven things that decide a case a collected file lacks, and how to get them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def missing(report: Mapping[str, Any]) -> list[str]:
    """One sentence each, with the command; empty if the report is complete.

    The seven: the drafter's config and tensors; resolved ids and flags; prompts, template and thinking; the
    share of cached tokens; acceptance per position at k = 1 and k = n; revision and checksum of the drafter;
    the figure with one thing changed (runner, eager, one device, cache off).
    """
    parts = (_files, _runtime, _prompts, _cached, _figures, _copy, _arms)
    return [sentence for part in parts for sentence in part(report)]


def _files(report: Mapping[str, Any]) -> Iterator[str]:
    draft = report["draft"]
    if draft is None:
        yield "the drafter's config and tensors: --target DIR --draft DIR (headers are read, no weights)"
    elif not draft["tensors"]:
        yield f"the drafter's tensors: {draft['name'] or 'the target'} holds no safetensors file"


def _runtime(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["log_lines"]:
        yield "layer ids and flags as the engine resolved them: --log FILE, its log from the start on"
    if not report["stated"].get("engines"):
        yield "engine, version and runner: --engine NAME:VERSION:RUNNER (see `truedraft engines`)"


def _prompts(report: Mapping[str, Any]) -> Iterator[str]:
    if report["prompts"] is None:
        yield "the prompts that were sent: --prompts FILE (their texts stay out without --with-prompts)"
    if report["thinking"] is None:
        yield "whether the served model thinks: --thinking or --no-thinking"


def _cached(report: Mapping[str, Any]) -> Iterator[str]:
    if report["cached"] is None:
        yield (
            "the share of cached tokens: `truedraft measure --server URL --prompts FILE --repeat-prefix "
            "-o r.jsonl`, then r.jsonl as FILE"
        )


def _figures(report: Mapping[str, Any]) -> Iterator[str]:
    figures = report["figures"]
    if figures is None:
        yield "acceptance figures: FILE, such as the engine's log, /metrics or a benchmark's JSON"
    elif not figures["pooled"]["acceptance"]["survival"]:
        yield "acceptance per position: vLLM's log or /metrics as FILE, or `truedraft measure --server`"
    every = [*([figures["pooled"], *figures["sources"]] if figures else []), *report["arms"].values()]
    widths = {width for entry in every for width in entry["K"]}
    if figures is not None and 1 not in widths:
        yield "acceptance with one draft per round: restart with k = 1, then --arm k1=FILE"


def _copy(report: Mapping[str, Any]) -> Iterator[str]:
    draft = report["draft"]
    if draft is None:
        return
    hashed = bool(draft["weights"]) and all("sha256" in entry for entry in draft["weights"])
    if not hashed and draft["revision"] is None:
        yield "revision or checksum of the drafter: leave --no-hash away, with the weights in a directory"


def _arms(report: Mapping[str, Any]) -> Iterator[str]:
    if not any(set(entry["K"]) != {1} for entry in report["arms"].values()):
        yield (
            "the figure with one thing changed: the other runner, eager, one device, or the prefix cache "
            "off, then --arm eager=FILE"
        )
