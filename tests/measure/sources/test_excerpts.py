"""The excerpts of public logs say what is written beside them."""

from __future__ import annotations

import json

import excerpts as e
import pytest
from reading import summary

from truedraft.contract import acceptance
from truedraft.measure.sources import definitions


def test_a_vllm_line_determines_its_counts() -> None:
    found = summary(e.VLLM_293 + "\n" + e.VLLM_NEIGHBOUR)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed, pooled.accepted, pooled.basis) == (55, 385, 106, "derived")
    assert pooled.tau == pytest.approx(1 + 106 / 55)
    assert [round(s, 3) for s in pooled.survival] == [0.691, 0.418, 0.382, 0.182, 0.127, 0.073, 0.055]
    assert pooled.conditional[2] == pytest.approx(21 / 23)
    assert pooled.definition == definitions.TAU_ENGINE
    assert not found.warnings
    (record,) = found.records
    assert record.histogram == (
        (7, 0, 17), (7, 1, 15), (7, 2, 2), (7, 3, 11), (7, 4, 3), (7, 5, 3), (7, 6, 1), (7, 7, 3),
    )  # fmt: skip
    assert (record.prompt_id, record.output_hash, record.engine) == ("", "", "vllm")
    assert acceptance([record]).tau == pooled.tau


def test_a_vllm_line_that_leaves_the_rounds_open_gives_bounds_and_no_record() -> None:
    found = summary(e.VLLM_103)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.rounds_between) == (None, (913, 943))
    assert pooled.tau_between == pytest.approx((1 + 25 / 943, 1 + 25 / 913))
    assert pooled.tau == pytest.approx(1.027, abs=5e-4)
    assert (pooled.accepted, pooled.proposed, pooled.basis) == (25, 3652, "bounds")
    assert pooled.survival == (0.027, 0, 0, 0)
    assert found.records == []


def test_intervals_are_weighted_by_their_rounds_not_averaged() -> None:
    found = summary(e.VLLM_103 + "\n" + e.VLLM_293)
    pooled = found.acceptance
    low, high = 913 + 55, 943 + 55
    assert pooled.tau_between == pytest.approx((1 + 131 / high, 1 + 131 / low))
    assert "K differs (4, 7)" in "".join(found.warnings)
    assert pooled.conditional == ()


def test_v0_takes_tau_from_emitted_tokens_and_keeps_its_rate_apart() -> None:
    found = summary(e.VLLM_V0)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed) == (13429, 53716)
    assert pooled.tau == pytest.approx(34244 / 13429)
    assert pooled.definition == definitions.TAU_V0
    stated = {figure.name: figure for _, figure in found.chosen[0].stated}
    assert stated["draft acceptance rate"].definition == definitions.RATE_V0
    assert found.records == []


def test_the_last_v0_line_counts_because_it_is_cumulative() -> None:
    later = e.VLLM_V0.replace("53716", "53720").replace("34244", "34248").replace("0.510", "0.510")
    assert summary(e.VLLM_V0 + "\n" + later).acceptance.rounds == 13430


def test_the_offline_example() -> None:
    found = summary(e.VLLM_EXAMPLE)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed, pooled.accepted) == (65, 260, 136)
    assert pooled.tau == pytest.approx(3.0923, abs=1e-4)
    assert [round(s, 2) for s in pooled.survival] == [0.74, 0.51]
    assert "2 of at least 4 positions" in found.warnings[0]  # the excerpt leaves two out
    older = e.VLLM_EXAMPLE.replace(": 0.74", ":0.74").replace(": 0.51", ":0.51")
    assert summary(older).acceptance == pooled


def test_an_example_whose_first_position_is_the_bonus_token() -> None:
    text = "num_drafts: 100\nnum_draft_tokens: 200\nnum_accepted_tokens: 110\nmean acceptance length: 2.10\n"
    shares = "acceptance at token 0: 1.00\nacceptance at token 1: 0.70\nacceptance at token 2: 0.40\n"
    found = summary(text + shares)
    assert found.acceptance.survival == (0.7, 0.4)
    assert not found.warnings


def test_bench_serve_text_and_json() -> None:
    found = summary(e.VLLM_BENCH)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed, pooled.accepted) == (1000, 3000, 1660)
    assert pooled.tau == pytest.approx(2.66)
    assert pooled.survival == (0.71, 0.53, 0.42)
    assert pooled.conditional == pytest.approx((0.71, 53 / 71, 42 / 53))
    result = {
        "model_id": "",
        "spec_decode_acceptance_rate": 55.33333333333333,
        "spec_decode_acceptance_length": 2.66,
        "spec_decode_num_drafts": 1000,
        "spec_decode_draft_tokens": 3000,
        "spec_decode_accepted_tokens": 1660,
        "spec_decode_per_position_acceptance_rates": [0.71, 0.53, 0.42],
    }
    assert summary(json.dumps(result, indent=1)).acceptance == pooled


def test_prometheus() -> None:
    found = summary(e.VLLM_PROMETHEUS)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed, pooled.accepted, pooled.basis) == (1000, 3000, 1660, "counts")
    assert pooled.survival == (0.71, 0.53, 0.42)
    assert found.chosen[0].scope == "lifetime"
    assert not found.warnings


def test_per_request_object() -> None:
    found = summary(e.VLLM_REQUEST)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed, pooled.accepted) == (43, 129, 10)
    assert pooled.tau == pytest.approx(1.2325581395348837)
    assert pooled.survival == pytest.approx((4 / 43, 3 / 43, 3 / 43))
    assert found.records[0].histogram == ((3, 0, 39), (3, 1, 1), (3, 3, 3))


@pytest.mark.parametrize(("line", "tau"), [(e.SGLANG_104, 1.04), (e.SGLANG_167, 1.67)])
def test_sglang_lines_give_the_length_and_no_rate(line: str, tau: float) -> None:
    found = summary(line)
    pooled = found.acceptance
    assert (pooled.tau, pooled.rounds, pooled.survival) == (tau, None, ())
    assert pooled.definition == definitions.TAU_GAUGE
    assert "tau is taken from accept len" in found.warnings[0]
    assert found.records == []


def test_the_new_form_of_the_2026_line_fits_six_draft_tokens() -> None:
    assert "accepted drafts / proposed drafts with 5 per round" in summary(e.SGLANG_167).warnings[0]


def test_sglang_gauges() -> None:
    found = summary(e.SGLANG_GAUGES)
    assert found.acceptance.tau == 1.55
    assert found.acceptance.definition == definitions.TAU_GAUGE


def test_sglang_meta_info_keeps_theta_apart() -> None:
    found = summary(e.SGLANG_META)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed, pooled.accepted) == (43, 215, 63)
    assert pooled.tau == pytest.approx(1 + 63 / 43)
    theta = found.chosen[0].stated[0][1]
    assert theta.value == pytest.approx(106 / 43)
    assert theta.definition == definitions.THETA


def test_llama_cpp_lines() -> None:
    found = summary(e.LLAMA_REQUEST)
    pooled = found.acceptance
    assert (pooled.rounds, pooled.proposed, pooled.accepted) == (1449, 2898, 1797)
    assert round(pooled.tau or 0, 2) == 2.24
    assert pooled.survival == (0.727, 0.513)
    total = summary(e.LLAMA_TOTAL).acceptance
    assert (total.rounds, total.proposed, total.accepted) == (691, 2064, 526)
    assert total.survival == pytest.approx((291 / 691,))
    example = summary(e.LLAMA_EXAMPLE).acceptance
    assert (example.tau, example.proposed, example.accepted) == (None, 430, 427)


def test_newer_llama_cpp_lines() -> None:
    request = (
        "0.34.089.489 I slot print_timing: id  3 | task 0 | draft acceptance = 0.77945 (  311 accepted "
        "/   399 "
        "generated), mean len =  2.55"
    )
    total = (
        "0.42.130.640 I spec common_specu: statistics     draft-dflash: #calls(b,g,a) =    4    511    "
        "511, #gen "
        "drafts =    511, #acc drafts =   390, #gen tokens =   2041, #acc tokens =   974, #mean acc len "
        "= 2.91, #acc "
        "rate/pos = (0.763, 0.526, 0.362, 0.254), dur(b,g,a) = 0.004, 3421.333, 0.148 ms"
    )
    found = summary(request)
    assert found.acceptance.tau_between is not None
    assert found.acceptance.tau_between[0] <= 2.55 <= found.acceptance.tau_between[1]
    pooled = summary(total).acceptance
    assert (pooled.rounds, pooled.accepted) == (511, 974)
    assert [round(s, 3) for s in pooled.survival] == [0.763, 0.526, 0.362, 0.254]
    both = summary(request + "\n" + total)
    assert both.chosen[0].scope == "request"
    assert "kept apart" in "".join(both.warnings)
