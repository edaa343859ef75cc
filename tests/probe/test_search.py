"""The search on scores that are made up: what it climbs, takes back, refuses, and how often it errs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from made_up import FakeSample, FakeWiring, Law

from truedraft.contract import Contract, UndecidedError, unknown
from truedraft.probe import ProbeReport, Settings
from truedraft.probe._run import investigate
from truedraft.probe.hypotheses import doubts
from truedraft.probe.sample import exploration, looks
from truedraft.probe.search import Search
from truedraft.probe.verdicts import AxisVerdict

SLOT = "block.first_slot"


def noise(index: int, key: str, size: float = 0.02) -> float:
    return float(np.random.default_rng([index, *key.encode()]).normal(0, size))


def report(
    law: Law, *axes: str, prompts: int = 24, wiring: FakeWiring | None = None, **more: Any
) -> ProbeReport:
    sample: Any = FakeSample(prompts, law)
    made: Any = wiring or FakeWiring()
    return investigate(made, sample, Settings(axes=axes, **more))


def of(found: ProbeReport, axis: str) -> AxisVerdict:
    return next(verdict for verdict in found.axes if verdict.axis == axis)


def standings(verdict: AxisVerdict) -> dict[Any, str]:
    return {candidate.value: candidate.standing for candidate in verdict.candidates}


def test_looks_never_see_the_prompts_of_the_exploration() -> None:
    for prompts in (1, 2, 5, 6, 9, 24, 100, 1000):
        first, ahead = exploration(prompts), looks(prompts)
        begin = 0 if first is None else first.last
        assert (first is None) == (prompts < 6)
        assert begin <= prompts / 3
        assert all(look.first == begin for look in ahead)
        assert ahead[-1].last == prompts
        assert [look.last for look in ahead] == sorted(look.last for look in ahead)
        sizes = [(look.last, look.anchors) for look in ahead]
        assert len(set(sizes)) == len(sizes)  # every further look has more


def slot_law(explored: float, looked: float, spread: float = 0.02) -> Law:
    """How much better the other slot looks on the 8 prompts of the exploration, and on the others."""

    def law(contract: Contract, index: int) -> tuple[float, int]:
        other = contract[SLOT] == "predicts_next"
        gain = (explored if index < 8 else looked) + noise(index, "slot", spread)
        return -1.0 + other * gain + noise(index, "prompt", 0.3), 3

    return law


@pytest.mark.parametrize(("looked", "spread"), [(0.0, 0.001), (0.05, 0.3), (-0.05, 0.3)])
def test_a_step_of_the_exploration_that_is_not_proven_is_taken_back(looked: float, spread: float) -> None:
    """Equal on the other prompts, or not to be told: then the contract's value stands."""
    found = report(slot_law(explored=2.0, looked=looked, spread=spread), SLOT)
    assert found.best == {}
    verdict = of(found, SLOT)
    assert (verdict.verdict, verdict.best) == ("undecided", "unused")
    assert standings(verdict)["predicts_next"] in ("equal", "unclear")


def test_a_step_of_the_exploration_that_proves_wrong_is_taken_back() -> None:
    found = report(slot_law(explored=2.0, looked=-1.0), SLOT)
    assert found.best == {}
    assert of(found, SLOT).verdict == "supported"
    assert found.tau == found.best_tau


def test_a_step_of_the_exploration_that_is_proven_stays() -> None:
    found = report(slot_law(explored=2.0, looked=1.0), SLOT)
    assert found.best == {SLOT: "predicts_next"}
    verdict = of(found, SLOT)
    assert (verdict.verdict, verdict.best) == ("contradicted", "predicts_next")
    difference = next(c.log_q for c in verdict.candidates if c.value == "predicts_next")
    assert difference is not None
    assert difference.mean == pytest.approx(1.0, abs=0.05)


def test_what_only_the_exploration_saw_is_no_evidence_until_the_last_look() -> None:
    """In doubt an early look leaves the step, the last one takes it back."""
    made: Any = FakeWiring()
    sample: Any = FakeSample(24, slot_law(explored=2.0, looked=0.05, spread=0.3))
    search = Search(made, sample, doubts(made.base, (SLOT,)), 0.05, time.monotonic() + 100)
    first = exploration(24)
    assert first is not None
    sample.take(first)
    search.explore()
    assert search.current == {SLOT: "predicts_next"}
    sample.take(looks(24)[0])
    search.look(last=False)
    assert search.current == {SLOT: "predicts_next"}
    assert not search.settled
    sample.take(looks(24)[-1])
    search.look(last=True)
    assert search.current == {}


def test_a_gain_in_log_probability_alone_that_costs_acceptance_is_not_better() -> None:
    def law(contract: Contract, index: int) -> tuple[float, int]:
        other = contract[SLOT] == "predicts_next"
        return -1.0 + 0.5 * other + noise(index, f"{other}"), 3 - other

    found = report(law, SLOT)
    assert found.best == {}
    assert of(found, SLOT).verdict == "undecided"
    assert "-1.00 drafts per round: the measures disagree" in of(found, SLOT).reason
    # the other way round it is not supported either
    found = report(lambda c, i: (-2 - law(c, i)[0], 5 - law(c, i)[1]), SLOT)
    assert of(found, SLOT).verdict == "undecided"
    assert "+1.00 drafts per round: the measures disagree" in of(found, SLOT).reason


def test_less_than_the_margin_is_of_no_use_to_anybody() -> None:
    def law(contract: Contract, index: int) -> tuple[float, int]:
        return -1.0 + 0.005 * (contract[SLOT] == "predicts_next") + noise(index, "x"), 3

    found = report(law, SLOT)
    assert of(found, SLOT).verdict == "undecided"
    assert standings(of(found, SLOT))["predicts_next"] == "equal"
    assert "too little to matter" in of(found, SLOT).reason


def test_a_leak_is_never_evidence() -> None:
    def law(contract: Contract, index: int) -> tuple[float, int]:
        leaks = contract["context.end"] == "through_anchor"
        return -2.0 + leaks + noise(index, f"{leaks}"), 2 + leaks

    found = report(law, "context.end")
    assert found.best == {}
    assert of(found, "context.end").verdict == "undecided"
    assert standings(of(found, "context.end"))["through_anchor"] == "more information"
    # as the contract's value it is not supported by it either
    wrong = FakeWiring()
    wrong.base = wrong.resolve({"context.end": "through_anchor"}).contract
    found = report(law, "context.end", wiring=wrong)
    assert of(found, "context.end").verdict == "undecided"
    assert "no evidence" in of(found, "context.end").reason
    # but that a drafter does better without it is evidence
    found = report(lambda c, i: (-law(c, i)[0] - 4, 4 - law(c, i)[1]), "context.end", wiring=wrong)
    assert of(found, "context.end").verdict == "contradicted"
    assert found.best == {"context.end": "before_anchor"}


def test_faults_that_hide_each_other_are_found_by_climbing() -> None:
    """Behind a wrong theta the slot makes no difference, and a single sweep would not name it."""
    right = FakeWiring().base["rope.theta"]

    def law(contract: Contract, index: int) -> tuple[float, int]:
        theta, slot = contract["rope.theta"] == right, contract[SLOT] == "unused"
        return -6 + 2 * theta + 3 * (theta and slot) + noise(index, f"{theta}{slot}"), 1 + 2 * theta + slot

    broken = FakeWiring()
    changes = {SLOT: "predicts_next", "rope.theta": (1e6, 1e6, 1e6)}
    broken.base = broken.resolve(changes).contract
    for prompts in (24, 4):  # with and without an exploration
        found = report(law, SLOT, "rope.theta", "rope.layout", prompts=prompts, wiring=broken)
        assert found.best == {"rope.theta": right, SLOT: "unused"}
        assert [verdict.axis for verdict in found.contradicted] == ["rope.theta", SLOT]
        assert of(found, "rope.layout").verdict == "not exercised"


def test_values_that_cannot_be_built() -> None:
    axis, own = "rope.layout", ("half",) * 3
    refused = {(axis, ("interleaved",) * 3): "no such tensor"}
    found = report(slot_law(0, -1), axis, SLOT, wiring=FakeWiring(refused=refused))
    verdict = of(found, axis)
    assert (verdict.verdict, verdict.best) == ("undecided", own)
    assert "no other value can be built: no such tensor" in verdict.reason
    impossible = verdict.candidates[1]
    assert (impossible.standing, impossible.why, impossible.tau) == ("impossible", "no such tensor", None)
    # an axis that nobody asked for, and whose tensors leave no choice, is no question
    everything = report(slot_law(0, -1), wiring=FakeWiring(refused=refused))
    assert axis not in [verdict.axis for verdict in everything.axes]
    assert SLOT in [verdict.axis for verdict in everything.axes]


def open_wiring(refused: dict[tuple[str, Any], str] | None = None) -> FakeWiring:
    made = FakeWiring(refused=refused)
    axes = {**made.base.axes, SLOT: unknown("")}
    made.base = Contract(made.base.family, made.base.dialect, made.base.target, axes)
    return made


def test_an_open_axis_gets_the_better_value_and_no_other_axis_is_needed() -> None:
    found = report(slot_law(explored=0.0, looked=-1.0), "rope.layout", wiring=open_wiring())
    verdict = of(found, SLOT)  # though it was not asked for: nothing runs without it
    assert (verdict.verdict, verdict.open, verdict.value, verdict.best) == ("supported", True, None, "unused")
    assert found.best == {SLOT: "unused"}
    assert found.tau is None
    assert verdict.to_json()["known"] is False


def test_an_open_axis_without_a_difference_stays_open() -> None:
    found = report(slot_law(explored=0.0, looked=0.0, spread=1e-6), SLOT, wiring=open_wiring())
    assert of(found, SLOT).verdict == "not exercised"
    assert not found.decided


def test_an_open_axis_of_which_no_value_can_be_built() -> None:
    refused: dict[tuple[str, Any], str] = {(SLOT, value): "no" for value in ("unused", "predicts_next")}
    with pytest.raises(UndecidedError, match=f"no combination of {SLOT} can be built: no"):
        report(slot_law(0, 0), SLOT, wiring=open_wiring(refused))


def test_without_time_nothing_is_decided() -> None:
    found = report(slot_law(explored=0.0, looked=-1.0), SLOT, budget=-1.0)
    assert found.out_of_time
    assert (of(found, SLOT).verdict, of(found, SLOT).reason) == (
        "undecided",
        "the time ran out before any other value was tried",
    )
    assert standings(of(found, SLOT)) == {"unused": "value", "predicts_next": "not tried"}


def test_one_prompt_decides_nothing() -> None:
    found = report(slot_law(explored=-3.0, looked=-3.0), SLOT, prompts=1)
    assert (of(found, SLOT).verdict, found.decided) == ("undecided", False)
    assert "one prompt has no spread" in of(found, SLOT).reason


def test_it_looks_further_only_while_something_is_undecided() -> None:
    clear: Any = FakeSample(200, slot_law(0.0, -1.0))
    vague: Any = FakeSample(200, slot_law(0.0, 0.01, 0.3))
    for sample in (clear, vague):
        made: Any = FakeWiring()
        investigate(made, sample, Settings(axes=(SLOT,)))
    assert [look.last for look in clear.looks] == [8, 16]
    assert [look.last for look in vague.looks] == [8, 16, 24, 40, 72, 136, 200, 200]


def test_equal_wirings_are_rarely_told_apart() -> None:
    """All candidates differ by noise of mean 0: any verdict is an error, at most alpha of all probes."""
    made: Any = FakeWiring()
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        laws: dict[Any, list[tuple[float, int]]] = {}

        def law(contract: Contract, index: int, rng: Any = rng, laws: Any = laws) -> tuple[float, int]:
            key = contract[SLOT], contract["block.position_offset"]
            if key not in laws:
                log_q = rng.normal(-2.0, 0.3, 24).tolist()
                laws[key] = list(zip(log_q, rng.integers(1, 4, 24).tolist(), strict=True))
            found: tuple[float, int] = laws[key][index]
            return found

        found = report(law, SLOT, "block.position_offset", wiring=made)
        assert found.sweeps >= 2  # nothing was settled by the first look
        wrong += found.decided
    assert wrong <= 7
