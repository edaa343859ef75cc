"""`truedraft doctor`: the page on bundled pairs, its JSON, and the precedence of the closing verdict."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from probe_material import TARGET, copied, texts
from truedraft.checks import Finding, Report
from truedraft.cli import main
from truedraft.cli._doctor_verdict import EXIT_CODES, closing
from truedraft.contract import Contract, Sourced, family, override, stated
from truedraft.formats import resolve
from truedraft.probe import AxisVerdict, Candidate
from truedraft.stats import Estimate, estimate


@pytest.fixture(scope="module")
def prompt_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten prompts of 72 tokens; the first eight are decoded too."""
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    lines = [json.dumps({"tokens": text.tokens[: text.start]}) for text in texts()[:10]]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def few_prompts(prompt_file: Path) -> Path:
    """The first six: too few to find a fault, enough to see a sound pair."""
    path = prompt_file.with_name("few.jsonl")
    path.write_text("".join(prompt_file.read_text().splitlines(keepends=True)[:6]))
    return path


def call(capsys: Any, prompt_file: Path, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    given = [*map(str, arguments), "--prompts", str(prompt_file)]
    code = main(["doctor", *given, "--max-new-tokens", "16"])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_sound_pair_in_json_and_on_a_page(capsys: Any, few_prompts: Path) -> None:
    code, out, err = call(capsys, few_prompts, "tiny/dspark-anchor", "--axes", "block.first_slot", "--json")
    page = json.loads(out)
    assert (code, err) == (0, "")
    assert set(page) == {"schema", "verdict", "checks", "lossless", "acceptance", "probe"}
    assert (page["schema"], page["probe"]["schema"]) == (1, 1)
    assert set(page["verdict"]) == {"state", "text", "first"}
    assert page["verdict"]["state"] == "sound"
    assert (page["lossless"]["identical"], page["lossless"]["of"]) == (6, 6)
    assert page["acceptance"]["tau"] > 3
    assert page["probe"]["axes"]["block.first_slot"]["verdict"] == "supported"
    assert not [finding for finding in page["checks"] if finding["severity"] == "error"]


def test_a_wrong_tap_is_named_with_what_to_do(capsys: Any, prompt_file: Path, tmp_path: Path) -> None:
    """Stated wrongly in the draft's config: the page says where to correct it."""
    draft = copied(
        "dflash", tmp_path / "draft", lambda c: c["dflash_config"].update(target_layer_ids=[1, 4, 7])
    )
    code, out, err = call(capsys, prompt_file, TARGET, draft, "--axes", "taps.layers")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert [line for line in lines if line in ("files", "output", "weights")] == [
        "files",
        "output",
        "weights",
    ]
    assert any(line.strip() == "lossless: 8 of 8 identical to plain decoding" for line in lines)
    assert lines[-2].startswith("verdict      the weights were trained with other conventions in 1 axis: ")
    assert "taps.layers 0,3,6, not 1,4,7" in lines[-2]
    where = "draft/config.json#/dflash_config/target_layer_ids"
    assert lines[-1] == f"first        correct {where}, or run with --set taps.layers=0,3,6"


def test_an_engine_that_would_run_it_otherwise(capsys: Any, few_prompts: Path) -> None:
    given = ("tiny/dflash", "--engine", "vllm:0.20.1:v1", "--axes", "block.first_slot", "--quiet")
    code, out, err = call(capsys, few_prompts, *given)
    assert (code, err) == (1, "")
    verdict, first = out.splitlines()  # nothing else
    assert (
        "the weights support the contract, but the engine would not run it so: TD401 vllm:0.20.1:v1"
        in verdict
    )
    assert "eagle_aux_hidden_state_layer_ids" in first


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--engine", "vllm:9.9.9"), "vllm"),
        (("--axes", "nothing"), "--axes nothing: no such axis"),
        (("--set", "block.first_slot=3"), "expected one of predicts_next, unused"),
        (("--k", "3"), "--k 3: a dflash drafter makes its whole block, expected no --k"),
        (("--try", "chain.token=same"), "--try chain.token: nothing to try for this pair: dflash drafters"),
    ],
)
def test_bad_arguments(capsys: Any, few_prompts: Path, more: tuple[str, ...], message: str) -> None:
    code, out, err = call(capsys, few_prompts, "tiny", *more)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


# ------------------------------------------------------------------------------ the closing verdict


def contract(**sources: Sourced) -> Contract:
    base = resolve("tiny/dflash").contract
    axes = {name.replace("__", "."): sourced for name, sourced in sources.items()}
    return Contract(base.family, base.dialect, base.target, {**base.axes, **axes})


def verdict(
    axis: str, word: Any, value: Any, best: Any, *, loss: float = 0.0, open_: bool = False
) -> AxisVerdict:
    gain = estimate([loss, loss])
    candidates = (Candidate(best, "best", gain, gain, gain),)
    return AxisVerdict(axis, word, None if open_ else value, open_, best, f"because of {axis}", candidates)


STATED = estimate([2.0, 2.2])


def probe_report(*axes: AxisVerdict, tau: Estimate | None = STATED) -> Any:
    found = [v for v in axes if v.verdict == "contradicted"]
    return SimpleNamespace(
        axes=axes,
        contradicted=tuple(sorted(found, key=lambda v: -v.loss)),
        decided=any(v.verdict in ("supported", "contradicted") for v in axes),
        tau=tau,
        best_tau=estimate([4.0, 4.4]),
        prompts=3,
        reach=99,
        first_draft=estimate([0.8, 0.9]),
        idle="",
        asked=(),
        out_of_time=False,
    )


def output(identical: int, ok: bool) -> Any:
    return SimpleNamespace(lossless=SimpleNamespace(identical=identical, of=8, ok=ok))


GOOD, TIES, BAD = output(8, True), output(7, True), output(7, False)
SUPPORTED = verdict("rope.theta", "supported", (1e4,) * 3, (1e4,) * 3)
WRONG = verdict("block.first_slot", "contradicted", "unused", "predicts_next", loss=2.0)
WORSE = verdict("rope.layout", "contradicted", ("half",) * 3, ("interleaved",) * 3, loss=3.0)
VAGUE = verdict("block.anchor_fill", "undecided", "token", "token")
SETTLED = verdict("rope.theta", "supported", None, (1e4,) * 3, open_=True)
MISSING = verdict("attention.causal", "undecided", None, (True,) * 3, open_=True)


def finding(code: str, severity: Any, fix: str = "") -> Finding:
    return Finding(code, severity, "certain", f"what {code} is", "draft/config.json", fix=fix)


ENGINE, FILES = finding("TD401", "error", "newer, please"), finding("TD201", "error")
WARNING = finding("TD209", "warning")


@pytest.mark.parametrize(
    ("run", "findings", "axes", "state"),
    [
        (BAD, (FILES, ENGINE), (WRONG, MISSING), "not lossless"),
        (GOOD, (FILES, ENGINE), (SUPPORTED, WRONG, MISSING), "contradicted"),
        (GOOD, (ENGINE, FILES), (SUPPORTED, MISSING), "engine"),
        (GOOD, (FILES, ENGINE), (SUPPORTED,), "files"),
        (GOOD, (ENGINE,), (VAGUE,), "engine"),
        (GOOD, (WARNING,), (VAGUE,), "undecided"),
        (GOOD, (), (), "undecided"),
        (GOOD, (), (SETTLED, MISSING), "undecided"),
        (GOOD, (WARNING,), (SETTLED, VAGUE), "open"),
        (TIES, (WARNING,), (SUPPORTED, VAGUE), "sound"),
    ],
)
def test_the_gravest_matter_comes_first(run: Any, findings: Any, axes: Any, state: str) -> None:
    end = closing(contract(), contract(), Report(findings), run, probe_report(*axes))
    assert end.state == state
    assert end.verdict
    assert end.first


def test_exit_codes() -> None:
    wrong = {"not lossless", "contradicted", "engine", "files"}
    assert {state for state, code in EXIT_CODES.items() if code == 1} == wrong
    assert {state: code for state, code in EXIT_CODES.items() if code != 1} == {
        "open": 0,
        "undecided": 3,
        "sound": 0,
    }


def test_the_costliest_axis_is_mended_first_and_all_are_named() -> None:
    end = closing(contract(), contract(), Report(()), GOOD, probe_report(WRONG, SUPPORTED, WORSE))
    assert "in 2 axes: rope.layout 3×interleaved, not 3×half; block.first_slot predicts_next" in end.verdict
    assert "(tau 2.10 as stated, 4.20 with these)" in end.verdict
    assert end.first.endswith("--set rope.layout=3×interleaved --set block.first_slot=predicts_next")


@pytest.mark.parametrize(
    ("source", "first"),
    [
        (stated("unused", "draft/config.json#/x"), "correct draft/config.json#/x, or run with --set"),
        (
            override("unused", "--set block.first_slot=unused"),
            "replace --set block.first_slot=unused by --set",
        ),
        (family("unused", "someone's code"), "run with --set"),
    ],
)
def test_what_to_do_depends_on_who_said_it(source: Sourced, first: str) -> None:
    end = closing(
        contract(block__first_slot=source), contract(), Report(()), GOOD, probe_report(WRONG, tau=None)
    )
    assert end.first == f"{first} block.first_slot=predicts_next"
    assert "as stated" not in end.verdict


def test_what_is_said_of_errors_and_of_open_axes() -> None:
    engine = closing(contract(), contract(), Report((ENGINE,)), GOOD, probe_report(SUPPORTED))
    assert (engine.verdict.endswith("TD401 what TD401 is"), engine.first) == (True, "newer, please")
    files = closing(contract(), contract(), Report((FILES,)), GOOD, probe_report(VAGUE))
    assert "the weights decide nothing here, but the files are wrong: TD201" in files.verdict
    assert files.first == "`truedraft explain TD201`"
    missing = closing(contract(), contract(), Report(()), GOOD, probe_report(SETTLED, MISSING))
    begin = "no file settles attention.causal, and the weights do not decide it here: because of"
    assert missing.verdict.startswith(begin)
    assert "there were 3, the longest context had 99 tokens" in missing.first


def said(**changes: Any) -> Any:
    """A closing verdict over a report that is changed, with one axis that nothing depends on."""
    axis = verdict("rope.scaling", "not exercised", None, None)
    return closing(
        contract(), contract(), Report(()), GOOD, SimpleNamespace(**vars(probe_report(axis)) | changes)
    )


def test_why_nothing_was_decided_and_what_would_decide() -> None:
    assert said().verdict == "the weights decide nothing here: because of rope.scaling"
    assert "--prompts FILE; there were 3" in said().first
    late = said(out_of_time=True, idle="too few")
    assert late.verdict == "the weights decide nothing here: the time ran out"
    assert late.first.startswith("give it more time (--budget-s)")
    foreign = said(idle="no first draft is right", first_draft=estimate([0.0, 0.01]))
    assert foreign.verdict == "the weights decide nothing here: no first draft is right"
    assert "the model that this drafter was trained for" in foreign.first
    few = said(idle="too few", first_draft=estimate([0.0, 0.9]))
    assert few.first == said().first
    assert said(axes=()).verdict == "the weights decide nothing here: no axis has another value to try"


def test_a_sound_pair_is_called_so_only_where_all_was_looked_at() -> None:
    report = probe_report(SUPPORTED)
    whole = closing(contract(), contract(), Report(()), GOOD, report)
    assert whole.verdict.startswith("the pair runs as it was trained: output lossless, 1 of 1 axes")
    report.asked = ("rope", "taps.layers")
    part = closing(contract(), contract(), Report(()), GOOD, report)
    assert part.verdict.startswith("no fault found in rope, taps.layers, all that was asked: output lossless")
    report.out_of_time = True
    late = closing(contract(), contract(), Report(()), GOOD, report)
    assert (late.state, late.first.partition(" (")[0]) == ("sound", "give it more time")
    assert late.verdict.startswith("no fault found before the time ran out: output lossless, 1 of 1 axes")


def test_weights_of_zeros_and_numbers_that_overflow(capsys: Any, few_prompts: Path, tmp_path: Path) -> None:
    """Such drafters say the same everywhere: that no draft depends on an axis says nothing of the axis."""
    draft = copied("dflash", tmp_path / "draft")
    file = draft / "model.safetensors"
    save_file({name: torch.zeros_like(weight) for name, weight in load_file(file).items()}, file)
    options = ("--axes", "block.first_slot", "--quiet")
    code, out, err = call(capsys, few_prompts, TARGET, draft, *options)
    assert (code, err) == (3, "")
    assert "gives every true token the same probability, as if its weights were zeros" in out
    assert "the model that this drafter was trained for" in out
    code, out, err = call(capsys, few_prompts, "tiny", "--set", "embedding.scale=1e38", *options)
    assert (code, err) == (3, "")
    assert "or its numbers overflowed" in out


def test_overrides_that_the_files_contradict_are_left_out() -> None:
    given = override("unused", "--set block.first_slot=unused")
    bare = contract(block__first_slot=stated("predicts_next", "draft/config.json#/x"))
    end = closing(contract(block__first_slot=given), bare, Report(()), GOOD, probe_report(WRONG, WORSE))
    assert end.first == (
        "leave out --set block.first_slot=unused: the files have the trained value; "
        "run with --set rope.layout=3×interleaved"
    )
