"""Generations of vLLM's log line, and what people do to them."""

from __future__ import annotations

import excerpts as e
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import figures, summary

from truedraft.measure.sources import definitions

OLDEST = (
    "INFO 04-10 10:00:00 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 27.5%, "
    "Accepted: 106 tokens, "
    "Drafted: 385 tokens"
)
SECOND = (
    "INFO 04-20 10:00:00 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 27.5%, Mean "
    "acceptance length: "
    "{length}, Accepted: 106 tokens, Drafted: 385 tokens, Per-position acceptance rate: 0.691, "
    "0.418, 0.382, 0.182, "
    "0.127, 0.073, 0.055"
)


def test_the_oldest_line_has_counts_of_drafts_and_no_length() -> None:
    pooled = summary(OLDEST).acceptance
    assert (pooled.tau, pooled.rounds, pooled.proposed, pooled.accepted) == (None, None, 385, 106)


@pytest.mark.parametrize("length", ["1.93", "2.93"])
def test_a_length_without_the_bonus_token_is_recognised_by_the_positions(length: str) -> None:
    found = summary(SECOND.format(length=length))
    assert found.acceptance.tau == pytest.approx(1 + 106 / 55)
    assert found.acceptance.rounds == 55
    printed = found.chosen[0].stated[0][1]
    assert printed.value == float(length)
    bonus = definitions.LENGTH if length == "2.93" else definitions.LENGTH_WITHOUT_BONUS
    assert printed.definition == bonus


def test_fields_left_out_and_brackets() -> None:
    short = (
        "SpecDecoding metrics: Mean acceptance length: 2.93, Accepted: 106 tokens, Drafted: 385 tokens, "
        "Per-position "
        "acceptance rate: [0.691, 0.418, 0.382, 0.182, 0.127, 0.073, 0.055], Avg Draft acceptance rate: 27.5%"
    )
    found = summary(short)
    assert found.acceptance.rounds == 55
    assert not found.warnings


def test_an_interval_without_drafts() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.00 tokens/s, "
        "Drafted throughput: "
        "0.00 tokens/s, Accepted: 0 tokens, Drafted: 0 tokens, Per-position acceptance rate: 0.000, "
        "0.000, Avg Draft "
        "acceptance rate: nan%"
    )
    found = summary(e.VLLM_293 + "\n" + line)
    assert (found.acceptance.proposed, found.acceptance.accepted) == (385, 106)


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[36m(APIServer pid=1)\x1b[0;0m INFO \x1b[2m08-05\x1b[0m " + e.VLLM_293.partition("12:25:13 ")[2],
        "vllm-1  | " + e.VLLM_293,
        "> > " + e.VLLM_293,
        "2026-08-05T12:25:13.123456Z stdout F " + e.VLLM_293,
        "`" + e.VLLM_293 + "`",
        e.VLLM_293 + "\r",
        "Requests 50%\r" + e.VLLM_293,
    ],
)
def test_prefixes_and_colours(line: str) -> None:
    found = summary(line)
    assert found.acceptance.rounds == 55
    assert not found.warnings


def test_structured_logs_are_looked_into() -> None:
    import json

    lines = [{"log": e.VLLM_NEIGHBOUR + "\n", "stream": "stderr"}, {"log": e.VLLM_293 + "\n"}]
    assert summary("\n".join(map(json.dumps, lines))).acceptance.rounds == 55


@given(width=st.integers(30, 300), indent=st.sampled_from(["", "  ", "> "]), keep=st.booleans())
def test_wrapping_changes_nothing(width: int, indent: str, keep: bool) -> None:
    def wrapped(text: str) -> str:
        parts = [text[i : i + width] for i in range(0, len(text), width)]
        return "\n".join(indent + (part if keep else part.rstrip()) for part in parts)

    text = "\n".join(wrapped(line) for line in (e.VLLM_293, e.VLLM_NEIGHBOUR, e.VLLM_103))
    found = summary(text)
    if found.warnings[:1] and "without its beginning" in found.warnings[0]:
        return  # so narrow that the line's own name is broken in two places
    assert figures(found) == figures(summary(e.VLLM_293 + "\n" + e.VLLM_103))


def test_a_cut_line_is_used_as_far_as_it_came() -> None:
    cut = e.VLLM_293[: e.VLLM_293.index("0.382") + 3]
    found = summary(cut)
    assert "cut or mixed" in found.warnings[0]
    assert (found.acceptance.accepted, found.acceptance.proposed) == (106, 385)
    assert found.acceptance.survival == ()
    assert found.acceptance.rounds == 55  # the length alone leaves one number of rounds
    assert found.records == []


def test_two_processes_in_one_line() -> None:
    mixed = e.VLLM_293[:150] + e.VLLM_103 + "\n" + e.VLLM_293[150:]
    found = summary(mixed)
    assert found.acceptance.accepted == 25
    assert [w.split(":")[1][:1] for w in found.warnings[:2]] == ["1", "2"]  # its beginning, and the rest


def test_a_mixed_line_that_reads_well_contradicts_itself() -> None:
    forged = e.VLLM_293.replace("0.127, 0.073, 0.055", "0.000, 0.000, 0.000")
    found = summary(forged)
    assert found.acceptance.tau is None
    assert "shown, not pooled" in found.warnings[0]
    assert summary(e.VLLM_103 + "\n" + forged).acceptance.accepted == 25
