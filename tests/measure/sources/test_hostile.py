"""Hostile text: other encodings, numbers that are none, tables in pieces, samples that are cut."""

from __future__ import annotations

import json
from typing import Any

import excerpts as e
import pytest
from reading import figures, summary

GEN2 = (
    "SpecDecoding metrics: Draft acceptance rate: 55.3%, Mean acceptance length: 2.66, "
    "Accepted: 1660 tokens, Drafted: 3000 tokens, Per-position acceptance rate: 0.710, 0.530, 0.420"
)
TOTAL = "statistics draft-dflash: #gen drafts = 691, #acc drafts = 291, #gen tokens = 2064, #acc tokens = 526"
TEXTS = [e.VLLM_293, e.VLLM_V0, e.VLLM_EXAMPLE, e.VLLM_BENCH, e.VLLM_PROMETHEUS, e.LLAMA_REQUEST, TOTAL, GEN2]
HUGE = "9" * 400


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "how",
    [
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: ("\ufeff" + text).encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.replace(" ", "\xa0").encode(),
        lambda text: " ".join(f"\x1b[{len(w)}m{w}\x1b[0m" for w in text.split(" ")).encode(),
    ],
    ids=["utf-16", "utf-16-le", "utf-16-be", "bom", "crlf", "cr", "nbsp", "colours"],
)
def test_encodings_change_nothing(text: str, how: Any) -> None:
    if " 0.051" not in text and text is e.VLLM_PROMETHEUS and b"\xa0" in how(text):
        return  # label and value are parted by a space in this format
    found = summary(how(text + "\n"))
    assert figures(found) == figures(summary(text))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("number", [HUGE, "1,660", "2,93", "nan", "-1", "1e309", "\u0661\u0662", "1_000"])
def test_numbers_that_are_none(text: str, number: str) -> None:
    """In place of every number in turn: no figure changes but that it may go, with a warning."""
    import re

    whole = figures(summary(text))
    for match in re.finditer(r"(?<=[ (=])\d[\d.]*(?=[\s,%)]|$)", text):
        found = summary(text[: match.start()] + number + text[match.end() :])
        json.dumps(found.to_json(), allow_nan=False)
        left = figures(found)
        changed = {key for key in left if key in whole and left[key] != whole[key]}
        assert not changed - {"basis", "tau", "survival", "conditional"} or found.warnings


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"avg_spec_accept_length": int(HUGE)}),
        json.dumps({"avg_spec_accept_length": 3e25}),
        json.dumps({"avg_spec_accept_length": 0.5}),
        "sglang:spec_accept_length -0.5\n",
        "sglang:spec_accept_length +Inf\nsglang:spec_accept_rate 0.5\n",
        f"sglang:spec_accept_length {HUGE}\n",
        "Accept length:                          99999.00\n",
    ],
)
def test_lengths_that_are_none(text: str) -> None:
    found = summary(text)
    assert found.acceptance.tau is None
    assert found.warnings or not found.groups
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "bad", [[0.71, None, 0.42], [0.71, float("nan"), 0.42], [0.71, int(HUGE)], [0.7, "0.5"]]
)
def test_a_list_with_a_hole_moves_no_position(bad: list[Any]) -> None:
    bench = {
        "spec_decode_num_drafts": 1000,
        "spec_decode_draft_tokens": 3000,
        "spec_decode_accepted_tokens": 1660,
        "spec_decode_per_position_acceptance_rates": bad,
    }
    found = summary(json.dumps(bench))
    assert (found.acceptance.tau, found.acceptance.survival) == (2.66, ())
    assert "no list of shares" in found.warnings[0]


def test_a_number_with_a_space_is_no_sample() -> None:
    found = summary(e.VLLM_PROMETHEUS.replace("1000.0", "1 000.0"))
    assert found.acceptance.tau is None
    stamped = summary(e.VLLM_PROMETHEUS.replace("1000.0", "1000.0 1764489600000"))
    assert stamped.acceptance.rounds == 1000


def test_a_sample_without_its_decimals_is_cut() -> None:
    """The exporter ends whole numbers with `.0`; `166` may be the beginning of any of them."""
    found = summary(e.VLLM_PROMETHEUS.replace("1660.0", "166"))
    assert found.acceptance.tau is None
    assert "cut or no number" in found.warnings[0]


def test_more_rounds_than_drafts_cannot_be() -> None:
    found = summary(
        e.VLLM_PROMETHEUS.replace(
            '_tokens_total{engine="0",model_name="m"} 3000.0',
            '_tokens_total{engine="0",model_name="m"} 192.0',
        )
    )
    assert found.acceptance.tau is None


def test_lines_of_two_tables_are_not_mixed() -> None:
    lines = e.VLLM_BENCH.split("\n")
    other = e.VLLM_BENCH.replace("1000", "500").replace("3000", "1500").replace("1660", "830").split("\n")
    lines[4], other[4] = other[4], lines[4]  # drafted tokens of the other run
    found = summary("\n".join([*lines, *other]))
    assert found.acceptance.tau is None
    gone = [line for line in e.VLLM_BENCH.split("\n") if not line.startswith("Draft tokens")]
    found = summary("\n".join(gone))
    assert "missing: proposed, accepted" in found.warnings[0]
    assert found.acceptance.accepted is None
    assert "without its beginning" in found.warnings[1]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TOTAL[:-1], "statistics"),  # 52 of 526 tokens
        (e.VLLM_EXAMPLE[: e.VLLM_EXAMPLE.index("136") + 2], "a count"),
        (e.LLAMA_EXAMPLE[: e.LLAMA_EXAMPLE.index("427") + 2], "a count"),
        (e.VLLM_PROMETHEUS[: e.VLLM_PROMETHEUS.index("420.0") + 2], "a sample"),
    ],
)
def test_the_last_number_of_a_file_without_end_is_not_used(text: str, what: str) -> None:
    from truedraft.contract import InputError

    try:
        found = summary(text.encode())
    except InputError:
        return
    assert found.acceptance.accepted in (None, 1660), what
    assert found.warnings


def test_a_statement_whose_last_number_goes_on_in_the_next_line() -> None:
    found = summary(TOTAL[:-2] + "\n" + TOTAL[-2:])
    assert not found.groups
    assert "not used" in found.warnings[0]
    wrapped = summary(GEN2[:-7] + "\n" + GEN2[-7:])  # 0.710, 0.530 and then , 0.420
    assert wrapped.acceptance.survival == ()
    cut = summary(GEN2[:-6])
    assert cut.acceptance.survival == ()
    assert "cut or mixed" in cut.warnings[0]


def test_a_count_at_which_a_table_breaks_off() -> None:
    cut = e.VLLM_EXAMPLE[: e.VLLM_EXAMPLE.index("136") + 2] + "\n"  # 13 of 136
    found = summary(cut + e.VLLM_EXAMPLE)
    assert found.acceptance.accepted == 136
    assert "missing: accepted, length" in found.warnings[0]


def test_text_behind_the_last_number() -> None:
    """Another writer's text joined the line: neither number is either's."""
    found = summary(TOTAL + ".148 ms5, #mean acc len = 4.57")
    assert not found.groups
    mixed = "draft acceptance = 0.75000 (    6 accepted /     8 generated), mean len =2.00 tokens, done 4.00"
    found = summary(mixed)
    assert (found.acceptance.accepted, found.acceptance.tau_between) == (6, None)


def test_a_length_that_the_positions_exclude() -> None:
    found = summary(GEN2.replace("2.66", "4.75"))
    assert found.acceptance.tau is None
    assert "per-position" in found.warnings[0]


def test_figures_of_one_statement_are_not_put_beside_those_of_another() -> None:
    lines = "SpecDecoding metrics: Mean acceptance length: 4.60, Acc\n" + (
        "SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 8 tokens, Drafted: 16 tokens\n"
    )
    pooled = summary(lines).acceptance
    assert (pooled.tau, pooled.tau_between) == (None, None)


def test_a_stream_counts_once() -> None:
    """llama.cpp sends growing counts with every token if it is asked to."""
    events = [
        {"id": "a", "choices": [{}], "timings": {"draft_n": 10 * i, "draft_n_accepted": 5 * i}}
        for i in (1, 2, 3)
    ]
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n"
    found = summary(text)
    assert (found.acceptance.proposed, found.acceptance.accepted) == (30, 15)


def test_small_rates_keep_their_precision() -> None:
    from truedraft.measure.sources.observation import figure

    assert figure("rate", repr(9.5e-05), "").step == pytest.approx(1e-6)
    assert figure("length", "2.93", "").step == pytest.approx(0.01)


FINISH = (
    "[2025-10-02 23:42:16] Finish: obj=GenerateReqInput(rid='57', "
    "text=\"x 'meta_info': {'spec_verify_ct': 5}\"), "
    "out={'text': \"y 'meta_info': {'spec_verify_ct': 9}}\", 'meta_info': {'id': '57', 'finish_reason': "
    "{'type': 'length', 'length': 128}, 'prompt_tokens': 171, 'completion_tokens': 128, "
    "'cached_tokens': 0, 'spec_accept_rate': 0.8166666666666667, 'spec_accept_length': 4.266666666666667, "
    "'spec_accept_histogram': [4, 0, 2, 2, 22], 'spec_accept_token_num': 98, 'spec_draft_token_num': 120, "
    "'spec_verify_ct': 30, 'e2e_latency': 1.4}}"
)


def test_sglangs_finish_line() -> None:
    found = summary(FINISH)
    assert found.warnings == []
    assert (found.acceptance.rounds, found.acceptance.accepted, found.acceptance.proposed) == (30, 98, 120)
    (record,) = found.records
    assert (record.request_id, record.prompt_tokens, record.output_tokens) == ("57", 171, 128)
    plain = summary(FINISH.replace("spec_verify_ct", "other") + "\n" + e.SGLANG_104)
    assert plain.acceptance.tau == 1.04


@pytest.mark.parametrize("end", range(60, len(FINISH), 7))
def test_a_cut_finish_line_gives_nothing(end: int) -> None:
    assert not summary(FINISH[:end]).groups


def test_tensorrt_llms_iterations() -> None:
    def iteration(drafts: int, accepted: int, requests: int, **more: int) -> dict[str, Any]:
        stats = {
            "numDraftTokens": drafts,
            "numAcceptedTokens": accepted,
            "numRequestsWithDraftTokens": requests,
            "acceptanceLength": (accepted + requests) / requests if requests else 0.0,
        }
        return {"iter": 1, **more, "specDecodingStats": stats}

    rows = [
        iteration(0, 0, 0),
        iteration(24, 12, 8),
        iteration(24, 12, 8, attentionDpRank=1),
        iteration(3, 2, 1),
    ]
    found = summary(json.dumps(rows))
    assert (found.acceptance.rounds, found.acceptance.proposed, found.acceptance.accepted) == (9, 27, 14)
    assert found.acceptance.basis == "counts"
    wrong = iteration(24, 12, 8)
    wrong["specDecodingStats"]["acceptanceLength"] = 1.5
    assert "acceptance length 1.5, but" in summary(json.dumps(wrong)).warnings[0]
