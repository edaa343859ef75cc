"""Responses and exports with per-request counts: streams, steps, AIPerf, SGLang, llama.cpp's timings."""

from __future__ import annotations

import json
from typing import Any

import excerpts as e
import pytest
from reading import summary

STATS = json.loads(e.VLLM_REQUEST)["metrics"]["speculative_decoding"]


def test_a_saved_stream_of_events() -> None:
    chunk = {"id": "c", "choices": [{"delta": {"content": "x"}}]}
    usage = {"prompt_tokens": 9, "completion_tokens": 54, "prompt_tokens_details": {"cached_tokens": 4}}
    last = {"id": "c", "choices": [], "usage": usage, "metrics": {"speculative_decoding": STATS}}
    events = [f"data: {json.dumps(event)}\n" for event in (chunk, last)]
    found = summary("\n".join([*events, "data: [DONE]"]))
    assert not found.warnings
    (record,) = found.records
    assert (record.request_id, record.prompt_tokens, record.cached_tokens, record.output_tokens) == (
        "c",
        9,
        4,
        54,
    )


def test_steps_one_by_one_tell_variable_drafts() -> None:
    stats = {
        "num_spec_steps": 4,
        "num_accepted_draft_tokens": 5,
        "num_draft_tokens": 9,
        "num_spec_tokens": 3,
        "per_step_accepted": [3, 0, 1, 1],
        "per_step_drafted": [3, 3, 1, 2],
    }
    found = summary(json.dumps({"speculative_decoding": stats}))
    assert found.records[0].histogram == ((1, 1, 1), (2, 1, 1), (3, 0, 1), (3, 3, 1))
    assert found.acceptance.conditional == (0.75, 0.5, 1.0)
    wrong = {**stats, "num_accepted_draft_tokens": 6}
    assert "the steps add up to 5" in summary(json.dumps({"speculative_decoding": wrong})).warnings[0]


def test_a_histogram_of_variable_drafts_gives_no_record_and_no_conditional() -> None:
    found = summary(json.dumps({**STATS, "num_draft_tokens": 120, "draft_acceptance_rate": None}))
    assert (found.acceptance.rounds, found.acceptance.accepted, found.acceptance.proposed) == (43, 10, 120)
    assert found.acceptance.survival == pytest.approx((4 / 43, 3 / 43, 3 / 43))
    assert found.acceptance.conditional == ()
    assert found.records == []


def aiperf(phase: str, steps: int) -> dict[str, Any]:
    return {
        "metadata": {
            "benchmark_phase": phase,
            "x_request_id": "r",
            "conversation_id": "p",
            "request_start_ns": 2e9,
        },
        "metrics": {"input_sequence_length": {"value": 12, "unit": "tokens"}},
        "spec_decode_acceptance": {
            "engine": "sglang",
            "acceptance_histogram": {"0": steps, "2": steps},
            "num_spec_steps": 2 * steps,
            "num_accepted_draft_tokens": 2 * steps,
            "num_draft_tokens": 4 * steps,
            "num_spec_tokens": 2,
        },
    }


def test_aiperf_records_without_the_warm_up() -> None:
    rows = [aiperf("warmup", 5), aiperf("profiling", 10), {"metadata": {}, "metrics": {}}]
    found = summary("\n".join(map(json.dumps, rows)))
    assert (found.acceptance.rounds, found.acceptance.tau) == (20, 2.0)
    (record,) = found.records
    assert (record.request_id, record.prompt_id, record.engine, record.prompt_tokens, record.started) == (
        "r",
        "p",
        "sglang",
        12,
        2.0,
    )
    assert "warm-up" in found.warnings[0]
    assert "1 JSON lines hold no acceptance figures" in found.warnings[1]


def test_aiperfs_aggregate() -> None:
    total = {"total_spec_decode_steps": {"avg": 25600}}
    pooled = {"0": 6400, "1": 4608, "2": 3840, "3": 3328, "4": 3072, "5": 4352}
    found = summary(json.dumps({**total, "pooled_spec_decode_acceptance_histogram": pooled}, indent=2))
    assert found.acceptance.rounds == 25600
    assert found.acceptance.tau == pytest.approx(1 + sum(int(j) * n for j, n in pooled.items()) / 25600)
    assert found.acceptance.proposed is None
    assert found.records == []


def test_sglangs_older_names() -> None:
    meta = {
        "completion_tokens": 200,
        "spec_accept_rate": 0.011702127659574468,
        "spec_accept_length": 1.0638297872340425,
        "spec_verify_ct": 188,
        "spec_accept_token_num": 11,
        "spec_draft_token_num": 940,
    }
    found = summary(json.dumps([{"text": "", "meta_info": meta}]))
    assert (found.acceptance.rounds, found.acceptance.accepted, found.acceptance.proposed) == (188, 11, 940)
    assert found.acceptance.tau == pytest.approx(1 + 11 / 188)
    assert found.records == []


def test_server_info_and_timings() -> None:
    found = summary(json.dumps({"internal_states": [{"avg_spec_accept_length": 3.25}]}))
    assert (found.acceptance.tau, found.chosen[0].scope) == (3.25, "lifetime")
    timings = {"timings": {"draft_n": 40, "draft_n_accepted": 30, "predicted_n": 50, "cache_n": 0}}
    found = summary(json.dumps(timings))
    assert (found.acceptance.tau, found.acceptance.proposed, found.acceptance.accepted) == (None, 40, 30)
