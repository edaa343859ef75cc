"""Figures that exclude each other are shown, named, and pooled with nothing."""

from __future__ import annotations

import json

import excerpts as e
import pytest
from reading import summary

FOUNDING = "Acceptance rate (%):                     1.10\nAcceptance length:                       1.18\n"


def test_one_point_one_per_cent_with_length_1_18_is_more_than_the_trained_15() -> None:
    found = summary(FOUNDING, width=15)
    (warning, *_) = found.warnings
    assert "implies about 16 proposed drafts per round (15.8 to 16.9), more than the 15 asked for" in warning
    assert found.acceptance.tau is None
    assert [figure.value for figure in found.contradictory[0].stated][:2] == [1.18, pytest.approx(0.011)]


def test_without_k_the_implied_drafts_are_a_figure() -> None:
    found = summary(FOUNDING)
    assert found.acceptance.tau == 1.18
    implied = found.chosen[0].stated[-1][1]
    assert implied.name == "implied drafts per round"
    assert implied.value == pytest.approx(16.4, abs=0.1)
    assert summary(FOUNDING, width=16).acceptance.tau == 1.18


def test_in_a_log_line_the_positions_are_the_bound() -> None:
    shares = ", ".join(["0.180"] + ["0.000"] * 14)
    line = (
        f"SpecDecoding metrics: Mean acceptance length: 1.18, Per-position acceptance rate: {shares}, "
        "Avg Draft acceptance rate: 1.1%"
    )
    warnings = " ".join(summary(line).warnings)
    assert "implies about 16" in warnings
    assert "more than the 15" in warnings


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "Accepted tokens:                         1660",
            "Accepted tokens:  3001",
            "3001 accepted drafts of 3000",
        ),
        (
            "Acceptance length:                       2.66",
            "Acceptance length:  2.76",
            "acceptance length 2.76, but",
        ),
        (
            "Acceptance rate (%):                     55.33",
            "Acceptance rate (%):  55.43",
            "acceptance rate 0.5543",
        ),
        ("Position 1:                            53.00", "Position 1:   73.00", "per-position rates rise"),
        ("Position 2:                            42.00", "Position 2:   41.00", "1 + the per-position rates"),
    ],
)
def test_a_bench_table_that_cannot_be(old: str, new: str, why: str) -> None:
    assert old in e.VLLM_BENCH
    found = summary(e.VLLM_BENCH.replace(old, new))
    assert found.acceptance.tau is None
    assert why in found.warnings[0]


def test_counters_that_cannot_be() -> None:
    found = summary(e.VLLM_PROMETHEUS.replace("1660.0", "166.0"))
    assert found.acceptance.tau is None
    assert "sum to 1660, not to the 166 accepted" in found.warnings[0]


def test_a_histogram_that_does_not_add_up() -> None:
    stats = json.loads(e.VLLM_REQUEST)
    stats["metrics"]["speculative_decoding"]["acceptance_histogram"] = [39, 1, 1, 2]
    found = summary(json.dumps(stats))
    assert found.acceptance.tau is None
    assert "10 accepted drafts stated, the histogram says 9" in found.warnings[0]


def test_aiperfs_own_example_does_not_add_up() -> None:
    """docs/tutorials/spec-decode-metrics.md of AIPerf calls its values illustrative: 278 is not 281."""
    line = {
        "metadata": {"benchmark_phase": "profiling"},
        "spec_decode_acceptance": {
            "engine": "vllm",
            "mean_acceptance_length": 3.18,
            "acceptance_histogram": {"0": 34, "1": 22, "2": 19, "3": 16, "4": 15, "5": 22},
            "num_accepted_draft_tokens": 281,
            "num_draft_tokens": 640,
            "num_spec_steps": 128,
            "num_spec_tokens": 5,
        },
    }
    assert "281 accepted drafts stated, the histogram says 278" in summary(json.dumps(line)).warnings[0]


def test_counts_of_sglang_that_include_the_bonus_token() -> None:
    meta = {
        "completion_tokens": 8,
        "spec_verify_ct": 7,
        "spec_accept_length": 1.0,
        "spec_accept_histogram": [0, 7],
    }
    found = summary(json.dumps({"meta_info": meta}))
    assert found.acceptance.tau is None
    assert "may include the bonus token" in found.warnings[0]


def test_sglangs_old_rate_is_recognised() -> None:
    """(a + 1) / (k + 1) at k = 3: 0.25 where nothing is accepted."""
    lines = []
    for length in (1.00, 1.37, 2.00, 2.71):
        rate = f"accept len: {length:.2f}, accept rate: {length / 4:.2f},"
        lines.append(f"[2025-10-01 10:00:00] Decode batch. #running-req: 1, #token: 1, {rate} #queue-req: 0,")
    found = summary("\n".join(lines))
    assert "accept rate is (accepted drafts + 1) / width of a round with 4 per round" in " ".join(
        found.warnings
    )
    assert found.acceptance.tau is None  # four intervals of unknown weight
    assert found.acceptance.tau_between == pytest.approx((0.995, 2.715))
    mean = found.chosen[0].to_json()["stated"][-1]
    assert (mean["name"], mean["value"]) == ("mean of intervals", pytest.approx(1.77))


def test_theta_is_never_tau() -> None:
    meta = {"completion_tokens": 106, "spec_verify_ct": 43, "spec_accept_length": 2.4651162790697674}
    found = summary(json.dumps({"meta_info": meta}))
    assert found.acceptance.tau is None
    assert found.chosen[0].stated[0][1].definition.startswith("theta")
    both = summary(json.dumps({"meta_info": meta}), e.SGLANG_META)
    assert both.acceptance.tau == pytest.approx(1 + 63 / 43)
    assert "1 of 2 do not tell their rounds" in " ".join(both.warnings)


def test_an_interval_and_a_lifetime_are_not_added() -> None:
    found = summary(e.VLLM_293, e.VLLM_PROMETHEUS)
    assert found.acceptance.rounds == 55
    assert "prometheus (lifetime): kept apart" in " ".join(found.warnings)
    assert {group.scope for group in found.groups.values()} == {"interval", "lifetime"}


def test_two_engines_logs_are_not_added() -> None:
    found = summary(e.VLLM_293, e.SGLANG_167)
    assert found.acceptance.tau is None
    assert len(found.to_json()["groups"]) == 2
    assert "not added up" in " ".join(found.warnings)
