"""Verdicts on the bundled pairs: injected faults are named and put right, what is healthy is not accused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from probe_material import copied, everything, model, probed, prompts, wiring
from truedraft.formats import resolve
from truedraft.probe import AxisVerdict, ProbeReport, Settings, probe
from truedraft.probe import sample as sampling
from truedraft.probe.features import FeatureStore
from truedraft.probe.sample import Sample

BLOCK = ("taps.layers", "block.first_slot", "rope.theta")
CHAIN = ("taps.layers", "chain.token", "head.vocabulary_map")


@pytest.fixture(autouse=True)
def few_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last look at fewer anchors than usual: it costs most, and these texts are few and short."""
    monkeypatch.setattr(sampling, "MORE_ANCHORS", 14)
    monkeypatch.setattr(sampling, "ANCHORS", 10)


def named(report: ProbeReport) -> dict[str, AxisVerdict]:
    return {verdict.axis: verdict for verdict in report.axes}


@pytest.mark.parametrize(
    ("drafter", "fault", "axes"),
    [
        ("dflash", "taps.layers=1,4,7", BLOCK),
        ("dspark-anchor", "block.first_slot=unused", BLOCK[1:]),
        ("dflash-full", "rope.theta=1000000", BLOCK[1:]),
        ("eagle3", "head.vocabulary_map=absolute", CHAIN),
        ("eagle3", "chain.token=same", CHAIN),
    ],
)
def test_a_single_fault_is_named_and_put_right(drafter: str, fault: str, axes: tuple[str, ...]) -> None:
    axis = fault.partition("=")[0]
    truth = resolve(f"tiny/{drafter}").contract
    report = probed(drafter, fault, axes=axes, count=8)
    assert [verdict.axis for verdict in report.contradicted] == [axis]
    assert dict(report.best) == {axis: truth[axis]}
    found = named(report)[axis]
    assert (found.best, found.value) == (truth[axis], report.contract[axis])
    assert found.loss > 0.5
    assert report.tau is not None
    # in a drafter that hardly drafts, values of other axes hardly differ: that must not accuse them
    assert report.best_tau.mean > report.tau.mean + 0.5
    assert set(named(report)) == set(axes)
    for other in set(axes) - {axis}:
        assert named(report)[other].best == truth[other]
        assert named(report)[other].verdict == "supported", named(report)[other]


def test_three_faults_at_once_are_all_named_and_put_right() -> None:
    faults = ("taps.layers=1,4,7", "rope.theta=1000000", "attention.window=none")
    healthy = ("block.first_slot", "rope.layout")
    axes = ("taps.layers", "rope.theta", "attention.window", *healthy)
    truth = resolve("tiny/dflash").contract
    report = probed("dflash", *faults, axes=axes, count=8)
    wrong = {fault.partition("=")[0] for fault in faults}
    assert {verdict.axis for verdict in report.contradicted} == wrong
    assert dict(report.best) == {axis: truth[axis] for axis in wrong}
    assert {named(report)[axis].verdict for axis in healthy} == {"supported"}
    assert report.best_tau.mean > 5
    assert report.tau is not None
    assert report.tau.mean < 1.5


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("drafter", "axes"),
    [
        ("dflash", (*BLOCK, "block.anchor_fill", "context.end")),
        ("dspark", ("block.first_slot", "block.anchor_fill", "attention.causal", "markov", "context.end")),
        ("eagle3", (*CHAIN, "chain.feedback", "embedding.scale")),
    ],
)
def test_a_healthy_pair_is_not_accused(drafter: str, axes: tuple[str, ...], seed: int) -> None:
    report = probed(drafter, axes=axes, count=9, seed=seed)
    assert report.contradicted == ()
    assert dict(report.best) == {}
    assert report.tau == report.best_tau
    assert report.decided
    own = resolve(f"tiny/{drafter}").contract
    assert all(verdict.best == verdict.value == own[verdict.axis] for verdict in report.axes)
    leak = named(report).get("context.end")
    assert leak is None or leak.verdict == "undecided"


def test_a_contract_with_a_leak_is_not_supported_by_what_the_leak_brings() -> None:
    report = probed("dflash-full", "context.end=through_anchor", axes=("context.end",))
    assert named(report)["context.end"].verdict == "undecided"
    assert not report.decided


def test_a_candidate_of_the_user_s_is_tried_too() -> None:
    tries = {"taps.layers": [(0, 3, 6), (0, 3, 9), (0, 3)]}  # right, a layer that is not there, too few
    report = probed("dflash", "taps.layers=2,5,6", axes=("taps.layers",), count=8, tries=tries)
    found = named(report)["taps.layers"]
    assert (found.verdict, found.best) == ("contradicted", (0, 3, 6))
    refused = {candidate.value: candidate.why for candidate in found.candidates if candidate.why}
    assert set(refused) == {(0, 3, 9), (0, 3)}


# --------------------------------------------------------------------- texts that cannot decide


def given_texts(lengths: tuple[int, ...], axes: tuple[str, ...]) -> ProbeReport:
    """Probe dflash on beginnings of the stated prompts as whole texts."""
    from truedraft.probe._run import investigate

    whole = everything()
    with FeatureStore(whole.store.taps, 128, 2**30) as store:
        cut = [prompt[:length] for prompt, length in zip(prompts(), lengths, strict=False)]
        sample = Sample(whole.target, store, cut, 1, 0, given=True)
        return investigate(wiring("dflash"), sample, Settings(axes=axes))


def test_texts_shorter_than_the_window_do_not_exercise_it() -> None:
    """Even the smallest window that is tried, 16, reaches over all rows from the last slot."""
    verdict = named(given_texts((16,) * 4, ("attention.window",)))["attention.window"]
    assert verdict.verdict == "not exercised"
    assert verdict.reason == "no context longer than the window (longest: 8, window: 32 tokens)"


def test_texts_longer_than_the_window_exercise_it() -> None:
    verdict = named(given_texts((16, 16, 70, 60, 72, 72), ("attention.window",)))["attention.window"]
    assert verdict.verdict in ("supported", "undecided")


def test_short_texts_do_not_support_what_only_long_ones_tell() -> None:
    """Up to 24 tokens, half the window is wrong but no window at all is the same."""
    verdict = named(given_texts((24,) * 10, ("attention.window",)))["attention.window"]
    standing = {candidate.value: candidate.standing for candidate in verdict.candidates}
    assert standing[None, None, None] == standing[64, None, 64] == "same"
    assert standing[16, None, 16] != "same"


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny/dflash with random weights of the same shapes and sizes."""
    directory = copied("dflash", tmp_path_factory.mktemp("untrained") / "draft")
    file = directory / "model.safetensors"
    generator = torch.Generator().manual_seed(2)
    weights = {
        name: weight
        if "norm" in name
        else (torch.randn(weight.shape, generator=generator) * weight.float().std()).to(weight.dtype)
        for name, weight in load_file(file).items()
    }
    save_file(weights, file)
    return directory


def test_an_untrained_drafter_decides_nothing(untrained: Path) -> None:
    report = probed(untrained, axes=("taps.layers", "block.first_slot"), count=6)
    assert {verdict.verdict for verdict in report.axes} == {"undecided"}
    assert not report.decided
    assert report.contradicted == ()
    assert all("no wiring that was tried gets enough first drafts right" in v.reason for v in report.axes)


# --------------------------------------------------------------------------------- the whole of `probe`


def test_the_whole_of_a_probe_says_how_far_it_is() -> None:
    """From prompts to verdicts, with features on disk."""
    seen: list[tuple[str, int, int]] = []
    settings = Settings(axes=("block.first_slot",), max_new_tokens=10, memory=0)
    cut = [prompt[-30:] for prompt in prompts()[:3]]
    report = probe(wiring("dflash"), model(), cut, settings, lambda *step: seen.append(step))
    assert (report.prompts, report.reach) == (3, 30 + 10 - 8)
    assert {what for what, _, _ in seen} == {"target", "comparing"}
    assert all(0 < done <= total for _, done, total in seen)
