"""Whole JSON documents: our own reports, `vllm bench serve --save-result`, llama.cpp's `timings`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from truedraft.contract import DEFINITION
from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.definitions import LENGTH, RATE, SURVIVAL
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation, Request
from truedraft.measure.sources.per_request import exact
from truedraft.measure.sources.values import count, number, shares, text

OURS = "truedraft"
BENCH = "vllm-bench"
TIMINGS = "llama.cpp-timings"

_BENCH = "spec_decode_"


def is_ours(found: Mapping[str, Any]) -> bool:
    """Whether this is a report of `truedraft run`, `doctor` or `measure` (`--json`)."""
    inner = found.get("acceptance")
    return "schema" in found and isinstance(inner, dict) and {"tau", "definition", "rounds"} <= set(inner)


def is_bench(found: Mapping[str, Any]) -> bool:
    """Whether this is a result file of `vllm bench serve` with speculative decoding."""
    return any(key.startswith(_BENCH) for key in found)


def is_timings(found: Mapping[str, Any]) -> bool:
    """Whether this is the `timings` object of a response of llama.cpp's server."""
    return "draft_n" in found and "draft_n_accepted" in found


def read_ours(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """The pooled counts of a report that carries no records."""
    inner = found["acceptance"]
    rounds, accepted = count(inner, "rounds"), count(inner, "accepted")
    if rounds is None:
        return
    listed = shares(inner.get("survival")) or ()
    reached = [share * rounds for share in listed]
    whole = all(abs(r - round(r)) < 1e-6 * max(rounds, 1) for r in reached)
    yield settled(
        Observation(
            source=OURS,
            where=where,
            scope="run",
            definition=text(inner, "definition") or DEFINITION,
            rounds=rounds,
            proposed=count(inner, "proposed"),
            accepted=accepted,
            reached=tuple(round(r) for r in reached) if whole else (),
            width=len(listed) or None,
            engine="truedraft",
        )
    )


def read_bench(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """Counts of the benchmark's time; shares per position are not rounded, so that they are counts too."""
    rounds = count(found, _BENCH + "num_drafts")
    proposed = count(found, _BENCH + "draft_tokens", _BENCH + "num_draft_tokens")
    accepted = count(found, _BENCH + "accepted_tokens", _BENCH + "num_accepted_tokens")
    length = number(found, _BENCH + "acceptance_length")
    rate = number(found, _BENCH + "acceptance_rate")
    stated = found.get(_BENCH + "per_position_acceptance_rates")
    listed = shares(stated) or ()
    if stated and not listed:
        yield Notice(where, "partial", "per-position rates are no list of shares: not used")
    reached: tuple[int, ...] = ()
    if rounds and listed and all(abs(s * rounds - round(s * rounds)) < 1e-6 * rounds + 1e-6 for s in listed):
        reached = tuple(round(share * rounds) for share in listed)
    stated_length = exact("mean acceptance length", length, LENGTH)
    stated_rate = exact("draft acceptance rate", None if rate is None else rate / 100, RATE)
    seen = Observation(
        source=BENCH,
        where=where,
        scope="run",
        population=text(found, "model_id"),
        rounds=rounds,
        proposed=proposed,
        accepted=accepted,
        reached=reached,
        survival=()
        if reached
        else tuple(Figure(f"survival[{i}]", s, 1e-4, SURVIVAL) for i, s in enumerate(listed)),
        width=len(listed) or None,
        length=stated_length[0] if stated_length else None,
        stated=(*stated_length, *stated_rate),
        engine="vllm",
    )
    yield settled(seen, stated_rate[0] if stated_rate else None)


def read_timings(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """Proposed and accepted drafts of one request; llama.cpp does not say in how many rounds."""
    yield settled(
        Observation(
            source=TIMINGS,
            where=where,
            scope="request",
            proposed=count(found, "draft_n"),
            accepted=count(found, "draft_n_accepted"),
            request=Request(
                prompt_tokens=count(found, "prompt_n"),
                cached_tokens=count(found, "cache_n"),
                output_tokens=count(found, "predicted_n"),
            ),
            engine="llama.cpp",
        )
    )
