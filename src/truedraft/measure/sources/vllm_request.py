"""vLLM's per-request counts: `metrics.speculative_decoding` of a response, and AIPerf's export of the same.

Formats: vllm#48915 (`--per-request-spec-decode-metrics summary|detailed`; `null` for n > 1;
`acceptance_histogram[j]` = steps that accepted exactly j drafts; `detailed` adds `per_step_accepted` and
`per_step_drafted`); AIPerf's `profile_export.jsonl` at `--export-level records` (`spec_decode_acceptance`,
the histogram as an object), and its aggregate's `pooled_spec_decode_acceptance_histogram`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from truedraft.measure.sources.definitions import LENGTH, RATE
from truedraft.measure.sources.observation import Item, Notice, Observation, Request
from truedraft.measure.sources.per_request import exact, from_histogram, from_rounds
from truedraft.measure.sources.values import MOST_WIDTH, count, counts, histogram, number, text

NAME = "vllm-request"
AIPERF = "aiperf"
AIPERF_TOTAL = "aiperf-aggregate"

_STATS = ("speculative_decoding", "speculative_decoding_stats")


def is_response(found: Mapping[str, Any]) -> bool:
    """Whether this object holds vLLM's per-request counts."""
    metrics = found.get("metrics")
    inner = [found, metrics] if isinstance(metrics, dict) else [found]
    return any(isinstance(entry.get(name), dict) for entry in inner for name in _STATS)


def is_bare(found: Mapping[str, Any]) -> bool:
    """Whether this object is the counts themselves, without the response around them."""
    return "acceptance_histogram" in found and "num_spec_steps" in found


def is_aiperf(found: Mapping[str, Any]) -> bool:
    """Whether this is a line of AIPerf's `profile_export.jsonl`."""
    return isinstance(found.get("spec_decode_acceptance"), dict)


def is_aiperf_total(found: Mapping[str, Any]) -> bool:
    """Whether this is AIPerf's aggregate with a pooled histogram."""
    return "pooled_spec_decode_acceptance_histogram" in found


def read_response(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """The counts of one response; chunks of a stream without them give nothing."""
    metrics = found.get("metrics")
    inner = [found, metrics] if isinstance(metrics, dict) else [found]
    stats = next(entry[name] for entry in inner for name in _STATS if isinstance(entry.get(name), dict))
    yield from read_counts(stats, where, NAME, _request(found))


def _request(found: Mapping[str, Any]) -> Request:
    usage = found.get("usage") if isinstance(found.get("usage"), dict) else {}
    assert isinstance(usage, dict)
    details = usage.get("prompt_tokens_details")
    return Request(
        request_id=text(found, "id", "request_id"),
        prompt_tokens=count(usage, "prompt_tokens"),
        cached_tokens=count(details, "cached_tokens") if isinstance(details, dict) else None,
        output_tokens=count(usage, "completion_tokens"),
        started=number(found, "created") or 0.0,
    )


def read_aiperf(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """One request of AIPerf's export; warm-up requests are left out, as in AIPerf's own summary."""
    metadata = found.get("metadata") if isinstance(found.get("metadata"), dict) else {}
    metrics = found.get("metrics") if isinstance(found.get("metrics"), dict) else {}
    assert isinstance(metadata, dict)
    assert isinstance(metrics, dict)
    if text(metadata, "benchmark_phase") == "warmup":
        yield Notice(where, "warmup", "a warm-up request of AIPerf: left out")
        return
    lengths = {name: value for name, value in metrics.items() if isinstance(value, dict)}
    started = number(metadata, "request_start_ns")
    request = Request(
        request_id=text(metadata, "x_request_id", "request_id"),
        prompt_id=text(metadata, "conversation_id"),
        prompt_tokens=count(lengths.get("input_sequence_length", {}), "value"),
        output_tokens=count(lengths.get("output_sequence_length", {}), "value"),
        started=0.0 if started is None else started / 1e9,
    )
    yield from read_counts(found["spec_decode_acceptance"], where, AIPERF, request)


def read_aiperf_total(found: Mapping[str, Any], where: str) -> Iterator[Item]:
    """AIPerf's pooled histogram: rounds and accepted drafts; what was proposed it does not tell."""
    total = found.get("total_spec_decode_steps")
    steps = (
        count(total, "avg", "value") if isinstance(total, dict) else count(found, "total_spec_decode_steps")
    )
    rounds = histogram(found["pooled_spec_decode_acceptance_histogram"])
    if rounds is None:
        yield Notice(where, "partial", "pooled acceptance histogram is no list of counts: not used")
        return
    yield from from_histogram(
        Observation(source=AIPERF_TOTAL, where=where, scope="run", rounds=steps), rounds
    )


def read_counts(stats: Mapping[str, Any], where: str, source: str, request: Request) -> Iterator[Item]:
    """An object with `acceptance_histogram`, `num_spec_steps` and the rest."""
    length = exact("mean acceptance length", number(stats, "mean_acceptance_length"), LENGTH)
    rate = exact("draft acceptance rate", number(stats, "draft_acceptance_rate"), RATE)
    width = count(stats, "num_spec_tokens")
    seen = Observation(
        source=source,
        where=where,
        scope="request",
        rounds=count(stats, "num_spec_steps"),
        proposed=count(stats, "num_draft_tokens"),
        accepted=count(stats, "num_accepted_draft_tokens"),
        width=width if width and width <= MOST_WIDTH else None,
        length=length[0] if length else None,
        stated=(*length, *rate),
        request=request,
        engine=text(stats, "engine") or "vllm",
    )
    proposed, accepted = counts(stats.get("per_step_drafted")), counts(stats.get("per_step_accepted"))
    if seen.rounds == 0:
        yield replace(seen, stated=(), length=None)
        return
    if proposed and accepted:
        yield from from_rounds(seen, proposed, accepted)
        return
    counted = histogram(stats.get("acceptance_histogram"))
    if counted is None and seen.rounds is None:
        yield Notice(where, "partial", "per-request counts without a number of steps")
    yield from from_histogram(seen, counted)
