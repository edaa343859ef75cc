"""`truedraft diagnose`: pages, JSON, exit codes, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from truedraft.cli import main


def line(length: float, accepted: int, drafted: int, rates: str) -> str:
    """vLLM's line for one interval."""
    return (
        f"INFO SpecDecoding metrics: Mean acceptance length: {length:.2f}, "
        "Accepted throughput: 50.00 tokens/s, "
        f"Drafted throughput: 80.00 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
        f"Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {accepted / drafted:.1%}\n"
    )


GOOD = line(3.50, 500, 800, "0.800, 0.700, 0.550, 0.450")
BAD = line(1.03, 25, 3652, "0.027, 0.000, 0.000, 0.000")


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "server.log"
    path.write_text("(Worker) WARNING unexpected weight mtp.0.ffn.shared_experts.w1.weight\n" + BAD)
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, object]]:
    code = main(["diagnose", *argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_log_is_enough(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = said(capsys, log)
    assert code in (0, 3)
    assert found["schema"] == 1
    assert {o["question"] for o in found["observations"]} == {"curve", "line"}  # type: ignore[attr-defined]
    first = found["causes"][0]["causes"][0]  # type: ignore[index]
    assert first["name"] == "tensors-missing"
    assert found["next"]
    assert found["output"] == "not compared"


def test_the_page_says_all_parts(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", log, "--expect", "3.5"])
    out = capsys.readouterr().out
    for heading in ("asked first", "observed", "causes", "next", "verdict", "first"):
        assert f"\n{heading}" in f"\n{out}"
    assert all(len(line) <= 120 for line in out.splitlines())


def test_changed_output_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = said(capsys, "--fact", "text=differs")
    assert code == 1
    assert found["verdict"]["state"] == "changed output"  # type: ignore[index]


def test_arms_and_reference(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "other.log"
    good.write_text(GOOD)
    _, found = said(
        capsys, log, "--arm", f"other-runner={good}", "--reference", str(good), "--arm", f"mood={good}"
    )
    answers = {o["question"]: o["answers"] for o in found["observations"]}  # type: ignore[attr-defined]
    assert answers["runner"]["other-good"] > 0.9
    assert answers["loss"]["dead"] > 0.9
    assert any("mood" in warning for warning in found["warnings"])  # type: ignore[attr-defined]


def test_the_pair_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = said(capsys, "--target", "tiny/dflash", "--engine", "vllm:0.20.1:v1")
    texts = [o["text"] for o in found["observations"]]  # type: ignore[attr-defined]
    assert any("TD401" in text for text in texts)
    assert any("TD405" in text for text in texts)
    names = [c["name"] for g in found["causes"][:3] for c in g["causes"]]  # type: ignore[index]
    assert {"taps", "windows"} <= set(names)
    assert code in (0, 3)


def test_a_run_of_ours_answers_the_first_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "run",
        "tiny/dflash",
        "--set",
        "block.first_slot=predicts_next",
        "--max-new-tokens",
        "24",
        "--json",
    ]
    assert main(argv) == 0
    report = tmp_path / "run.json"
    report.write_text(capsys.readouterr().out)
    _, found = said(capsys, str(report), "--expect", "6.7")
    assert found["output"] == "equal"
    names = [c["name"] for g in found["causes"][:4] for c in g["causes"]]  # type: ignore[index]
    assert "slots" in names


def test_probe_json_is_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "probe.json"
    report.write_text(json.dumps({"axes": {"rope.theta": {"verdict": "contradicted"}}}))
    code, found = said(capsys, "--probe", str(report))
    assert code == 0
    assert found["causes"][0]["causes"][0]["name"] == "rope"  # type: ignore[index]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "found nothing to go by"),
        (["missing.log"], "missing.log"),
        (["--fact", "mood=bad"], "mood"),
        (["--fact", "cached=perhaps"], "flat, falls"),
        (["--fact", "cached=falls", "--fact", "cached=flat"], "twice"),
        (["--draft", "x"], "--target"),
        (["--engine", "vllm:0.32"], "--target"),
        (["--target", "tiny", "--engine", "vllm:9.9"], "vllm:9.9"),
        (["--target", "nowhere"], "nowhere"),
        (["--expect", "0.5", "--fact", "cached=falls"], "--expect"),
        (["--expect", "nan", "--fact", "cached=falls"], "--expect"),
        (["--probe", "missing.json"], "missing.json"),
        (["--arm", "eager", "--fact", "cached=falls"], "NAME=FILE"),
        (["--reference", "a", "--expect", "2", "--fact", "cached=falls"], "one of them"),
    ],
)
def test_bad_input_is_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err


@pytest.mark.parametrize(
    "text", ["{}", "[]", "{", '{"axes": 3}', '{"axes": {"rope.theta": 1}}', '{"axes": {"a": {"verdict": 2}}}']
)
def test_damaged_probe_reports(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "probe.json"
    report.write_text(text)
    assert main(["diagnose", "--probe", str(report)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "probe.json" in err


def test_questions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--questions"]) == 0
    out = capsys.readouterr().out
    assert "cached" in out
    assert "find out" in out
