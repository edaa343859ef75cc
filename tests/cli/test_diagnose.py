"""`truedraft diagnose`: pages, JSON, exit codes, bad input."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from truedraft.cli import main
from truedraft.cli._log_lines import lines_with


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
        (["--fact", "cached=falls", "--fact", " cached = flat"], "twice"),
        (["--questions", "--k", "3"], "--questions"),
        (["--log", "-", "--fact", "cached=falls"], "-"),
        (["-", "-"], "twice"),
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


def test_questions_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--questions", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["questions"]["cached"]["answers"]) == {"flat", "falls"}


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line of a refusal."""
    capsys.readouterr()
    assert main(["diagnose", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_one_file_is_not_two_runs(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "again.log"
    link.hardlink_to(log)
    for argv in ([str(link)], ["--arm", f"eager={link}"], ["--reference", str(link)]):
        assert "found twice" in refused(capsys, log, *argv)


def test_pipes_and_devices_are_refused_at_once(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = str(tmp_path / "pipe.json")
    os.mkfifo(pipe)
    for argv in ([pipe], [log, "--arm", f"eager={pipe}"], [log, "--reference", pipe], ["--log", pipe]):
        assert "pipe" in refused(capsys, *argv)


@pytest.mark.parametrize(
    "lossless",
    [
        {"of": 3, "identical": "x"},
        {"of": 3, "identical": 9},
        {"of": -1},
        {"of": True},
        {"of": 3, "ties": None},
    ],
)
def test_damaged_losslessness(lossless: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "run.json"
    report.write_text(json.dumps({"lossless": lossless}))
    assert "run.json" in refused(capsys, str(report))


def test_deep_json_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "run.json"
    report.write_text('{"lossless":' * 100_000)
    for argv in ([str(report)], ["--probe", str(report)], ["--log", str(report), "--probe", str(report)]):
        assert "run.json" in refused(capsys, *argv)


def test_a_collected_file_laid_out_anew(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, other = tmp_path / "report.json", tmp_path / "sorted.json"
    assert main(["collect", log, "-o", str(report)]) == 0
    data = json.loads(report.read_text())
    other.write_text(json.dumps(dict(reversed(data.items()))))
    capsys.readouterr()
    assert said(capsys, str(report))[1]["causes"] == said(capsys, str(other))[1]["causes"]
    assert "collected file" in refused(capsys, log, "--arm", f"eager={report}")
    data["case"]["facts"] = ["mood=bad"]
    other.write_text(json.dumps(data))
    assert "sorted.json#/case/facts" in refused(capsys, str(other))
    other.write_text(json.dumps(data | {"schema": 2}))
    assert "expected 1" in refused(capsys, str(other))


def interval(minute: int, good: bool) -> str:
    """One interval of vLLM's, with its time."""
    text = line(3.50, 500, 800, "0.800, 0.700, 0.550, 0.450")
    if not good:
        text = line(1.60, 120, 800, "0.350, 0.150, 0.075, 0.025")
    return text.replace("INFO", f"INFO 08-05 {12 + minute // 60:02}:{minute % 60:02}:00 [m.py:1]")


def test_time_since_the_start_takes_an_hour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.log"

    def uptime(minutes: range) -> dict[str, float] | None:
        path.write_text("".join(interval(m, m < minutes[-1] // 2) for m in minutes))
        items = said(capsys, str(path))[1]["observations"]
        return next((o["answers"] for o in items if o["question"] == "uptime"), None)  # type: ignore[attr-defined]

    assert uptime(range(0, 50)) is None
    long = uptime(range(0, 180, 3))
    assert long is not None
    assert long.get("flat", 0.0) < 0.1


def test_a_rate_and_a_length_imply_k(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1.1 % with length 1.18 is about 16 proposals, more than the 7 that the pair was trained for."""
    bench = tmp_path / "bench.txt"
    bench.write_text("Acceptance rate (%):    1.10\nAcceptance length:      1.18\n")
    _, found = said(capsys, str(bench), "--target", "tiny", "--draft", "tiny/dflash")
    first = {c["name"] for c in found["causes"][0]["causes"]}  # type: ignore[index]
    assert first == {"misread", "too-many-drafts"}
    assert any("15.2 to" in o["text"] or "15.8 to" in o["text"] for o in found["observations"])  # type: ignore[attr-defined]
    assert "width" not in {o["question"] for o in said(capsys, str(bench))[1]["observations"]}  # type: ignore[attr-defined]


def test_options_that_change_nothing_are_named(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = said(capsys, log, "--thinking", "--context", "4096")
    assert any("--thinking, --context" in warning for warning in found["warnings"])  # type: ignore[attr-defined]
    _, found = said(capsys, "--fact", "cached=falls", "--expect", "3")
    assert any("--expect" in warning for warning in found["warnings"])  # type: ignore[attr-defined]


def test_huge_logs_are_read_in_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, begin = tmp_path / "long.log", time.perf_counter()
    dull = b"INFO 08-05 12:00:11 [loggers.py:1] Engine 000: Running: 3 reqs, Waiting: 0 reqs\n"
    path.write_bytes(dull * 1_000_000 + b"x" * 10_000_000 + b" unexpected weight a\n" + BAD.encode())
    found = list(lines_with(path, ("unexpected", "specdecoding"), quiet=True))
    assert [number for number, _ in found] == [1_000_002]  # the word stands too far in the long line
    assert time.perf_counter() - begin < 20
    monkeypatch.setattr("truedraft.cli._slow.SECONDS", 0.0)
    list(lines_with(path, ("unexpected",), quiet=False))
    assert "reading" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["40", "70", "400"])
def test_the_page_fits_the_terminal(
    columns: str, log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    main(["diagnose", log])
    widest = max(len(line) for line in capsys.readouterr().out.splitlines())
    assert widest <= max(int(columns), 40) + 20  # words are not broken
    assert widest <= 120


def test_a_like_reference_acquits_the_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Story of a newcomer: wrong taps, a good run of the same prompts, the pair at hand."""
    files = {"good": [], "bad": ["--set", "taps.layers=1,4,7"]}
    for name, more in files.items():
        argv = ["run", "tiny/dflash", *more, "--max-new-tokens", "24", "--records", str(tmp_path / name)]
        assert main([*argv, "--quiet"]) == 0
    capsys.readouterr()
    given = [str(tmp_path / "bad"), "--reference", str(tmp_path / "good"), "--target", "tiny/dflash"]
    _, found = said(capsys, *given)
    texts = " ".join(o["text"] for o in found["observations"])  # type: ignore[attr-defined]
    assert "the reference ran the same prompts" in texts
    assert "other contracts" in texts
    heads = [g["causes"][0]["kind"] for g in found["causes"][:3]]  # type: ignore[index]
    assert "not-a-bug" not in heads
    assert found["next"][0]["experiment"] == "probe"  # type: ignore[index]
    _, again = said(capsys, *given, "--set", "taps.layers=1,4,7")
    assert again["causes"][0]["causes"][0]["name"] == "taps"  # type: ignore[index]
    assert "--set has taps.layers 1,4,7, the files 0,3,6" in str(again["observations"])


def test_a_probe_says_the_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "probe.json"
    entry = {"verdict": "contradicted", "value": [1, 4, 7], "best": [0, 3, 6]}
    report.write_text(json.dumps({"axes": {"taps.layers": entry}}))
    _, found = said(capsys, "--probe", str(report))
    assert "[0, 3, 6], not [1, 4, 7]" in found["observations"][0]["text"]  # type: ignore[index]
    first = "correct taps.layers: the weights were trained with [0, 3, 6]"
    assert found["verdict"]["first"] == first  # type: ignore[index]
