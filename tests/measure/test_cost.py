"""What a round costs and when speculation pays."""

from __future__ import annotations

import json
import time

import pytest

from conftest import GOLDENS
from truedraft import Decoder, Deployment, Prompt, load_pair, resolve, run_pair
from truedraft.cli._run_text import render
from truedraft.decode import PassTimes, Sampling
from truedraft.measure import cost as module
from truedraft.measure.cost import Cost, cost


def test_ratio_and_break_even():
    plain, speculative = PassTimes(), PassTimes()
    for _ in range(10):
        plain.add(2, 2, 0.5, 0.2)  # a batch of two: 0.1 s for each; what lies before a plain pass is no draft
    for _ in range(4):
        speculative.add(2, 10, 0.04, 0.32)
    found = cost(plain, speculative)
    assert found is not None
    assert (found.plain_s, found.draft_s, found.verify_s) == pytest.approx((0.1, 0.02, 0.16))
    assert found.verify_rows == 5
    assert found.sequences == 2
    assert found.break_even_tau == pytest.approx(1.8)
    assert found.expected_ratio(2.7) == pytest.approx(1.5)
    assert found.to_json(None)["expected_ratio"] is None


@pytest.mark.parametrize("which", [0, 1])
def test_no_cost_without_rounds(which):
    times = [PassTimes(1, 1, 0.1, 0.1), PassTimes(1, 1, 0.1, 0.1)]
    times[which] = PassTimes()
    assert cost(*times) is None


TEXT = tuple(json.loads((GOLDENS / "dflash_trained" / "expect.json").read_text())["generate"][0]["prompt"])


@pytest.fixture(scope="module")
def trained():
    case = GOLDENS / "dflash_trained"
    return load_pair(resolve(case / "target", case / "draft"))


def test_a_decoder_counts_all_rounds_but_the_first(trained):
    decoder = Decoder(trained.target, trained.drafter, speculative_tokens=3)
    out = decoder.generate([[5, 9, 17], [2, 8]], 12)
    rounds = sum(len(one.accepted) for one in out) - 2
    assert decoder.times.rounds == rounds
    assert decoder.times.rows == 4 * rounds
    assert decoder.times.passes == max(len(one.accepted) for one in out) - 1
    assert decoder.times.draft_s > 0
    assert decoder.times.verify_s > 0


class SlowLaw(Sampling):
    """Sampling whose laws take their time."""

    def law(self, logits):
        time.sleep(0.01 * len(logits))
        return super().law(logits)


def test_sampling_laws_are_part_of_verifying(trained):
    decoder = Decoder(trained.target, trained.drafter, sampling=SlowLaw(0.5), speculative_tokens=2)
    decoder.generate([[5, 9, 17]], 12)
    assert decoder.times.verify_s > 0.03 * decoder.times.rounds > 0


def test_a_run_reports_its_cost(trained):
    prompts = [Prompt("a", (5, 9, 17)), Prompt("b", (2, 8))]
    for size in (1, 2):
        report = run_pair(
            trained.contract,
            trained.target,
            trained.drafter,
            prompts,
            12,
            deployment=Deployment(batch_size=size),
        )
        found = report.to_json()["cost"]
        assert found["verify_rows"] == trained.drafter.proposals + 1
        assert found["sequences"] == size
        tau = report.acceptance.tau
        assert found["expected_ratio"] * found["break_even_tau"] == pytest.approx(tau)
        (line,) = [line for line in render(report).splitlines() if line.startswith("cost ")]
        assert ("(a sequence's share; 2.0 a pass)" in line) == (size == 2)


def test_one_token_makes_no_round_and_no_cost(trained):
    report = run_pair(trained.contract, trained.target, trained.drafter, [Prompt("a", (5, 9, 17))], 1)
    assert report.to_json()["cost"] is None
    assert "cost " not in render(report)


@pytest.mark.parametrize(("draft_s", "verdict"), [(0.001, "speculation pays"), (60.0, "does not pay")])
def test_the_verdict_follows_from_tau(trained, monkeypatch, draft_s, verdict):
    monkeypatch.setattr("truedraft.measure.run.cost", lambda *_: Cost(1.0, draft_s, 1.0, 8.0))
    report = run_pair(
        trained.contract,
        trained.target,
        trained.drafter,
        [Prompt("a", TEXT)],
        30,
    )
    assert report.acceptance.tau is not None
    assert 1.1 < report.acceptance.tau < 60
    assert verdict in render(report)
    assert module.Cost(1.0, draft_s, 1.0, 8.0) == report.cost
