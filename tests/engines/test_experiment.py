"""`truedraft experiment` with a stand-in for vLLM (`fake_boot.py`): order, resuming, failures, figures."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from truedraft.cli import main
from truedraft.cli._compare_input import read_arm
from truedraft.engines.vllm.experiment import parse_arms
from truedraft.engines.vllm.experiment.arms import blocks
from truedraft.engines.vllm.experiment.process import last_error

FAKE = Path(__file__).with_name("fake_boot.py")
ARMS = "native,fix:taps,fix:taps+rope.theta"
COUNTS = {"native": 1, "fix:taps": 2, "fix:taps+rope.theta": 3}


@dataclass
class Bench:
    """A folder with a fake interpreter, prompts and a plan."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def plan(self, **entries: Any) -> None:
        (self.folder / "plan.json").write_text(json.dumps({"accepted": COUNTS, **entries}))

    def argv(self, *more: str, arms: str = ARMS, boots: int = 2) -> list[str]:
        own = {"--arms": arms, "--boots": str(boots), "--python": str(self.folder / "python")}
        own |= {"--out": str(self.folder / "out"), "--prompts": str(self.folder / "prompts.jsonl")}
        own = {name: value for name, value in own.items() if name not in more}
        pairs = [part for pair in own.items() for part in pair]
        return ["experiment", "tiny", "tiny/dflash-full", "--k", "4", "--quiet", *pairs, *more]

    def run(self, *more: str, **how: Any) -> tuple[int, str, str]:
        code = main(self.argv(*more, **how))
        return code, *self.capsys.readouterr()

    def json(self, *more: str, **how: Any) -> dict[str, Any]:
        code, out, err = self.run("--json", *more, **how)
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    @property
    def started(self) -> list[Any]:
        journal = self.folder / "journal"
        return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []

    @property
    def files(self) -> set[str]:
        return {path.name for path in (self.folder / "out").iterdir()}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    python.chmod(0o755)
    lines = [{"id": f"p{i}", "tokens": [5] * (i + 3)} for i in range(6)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setenv("FAKE_PLAN", str(tmp_path / "plan.json"))
    monkeypatch.setenv("FAKE_JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setenv("TRUEDRAFT", "error")
    monkeypatch.setenv("TRUEDRAFT_SET", "rope.theta=1")
    made = Bench(tmp_path, capsys)
    made.plan()
    return made


def refused(result: tuple[int, str, str], words: str) -> None:
    """Exit 2, nothing on stdout, one line on stderr."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert re.search(words, err), err
    assert err.count("\n") == 1


def test_plain_first_then_every_block_has_every_arm_once_with_its_own_orders(bench: Bench) -> None:
    assert bench.run("--set", "taps.layers=1,4,6", boots=3)[0] == 0
    started = bench.started
    assert [entry[:2] for entry in started] == [
        ["plain", 0],
        *[[arm.name, block] for block, arm in blocks(parse_arms(ARMS), 3, 0)],
    ]
    for block in (1, 2, 3):
        assert sorted(arm for arm, of, *_ in started if of == block) == sorted(COUNTS)
    heard = {arm: orders for arm, _, orders, *_ in started}
    assert heard["plain"] == heard["native"] == {"TRUEDRAFT": "off"}
    assert heard["fix:taps+rope.theta"]["TRUEDRAFT"] == "fix:taps,rope.theta"
    assert heard["fix:taps"]["TRUEDRAFT_SET"] == "taps.layers=1,4,6"
    drafters = {arm: speculative for arm, _, _, speculative, *_ in started}
    assert drafters["plain"] is None
    assert drafters["native"]["num_speculative_tokens"] == 4


def test_orders_differ_from_block_to_block_and_seed_to_seed() -> None:
    arms = parse_arms(ARMS)
    orders = {tuple(arm.name for _, arm in blocks(arms, 8, 0)[3 * i : 3 * i + 3]) for i in range(8)}
    assert len(orders) > 2
    assert blocks(arms, 8, 0) != blocks(arms, 8, 1)
    assert blocks(arms, 8, 0)[:9] == blocks(arms, 3, 0), "boots can be added"


def test_figures_by_hand(bench: Bench) -> None:
    """Every round accepts as planned, one more in two of six prompts: tau = 1 + planned + 1/3."""
    bench.plan(more={"native 1": 1})
    found = bench.json()
    taus = [entry["tau"]["value"] for entry in found["arms"]]
    assert taus == pytest.approx([2 + 1 / 3 + 1 / 12, 3 + 1 / 3, 4 + 1 / 3])
    one, two, three = found["differences"]
    assert (one["a"], one["b"]) == ("native", "fix:taps")
    assert one["tau"]["value"] == pytest.approx(1 - 1 / 12)
    assert one["interval_over"] == "prompts", "fix:taps repeats itself"
    assert one["comparison"]["verdict"] == "estimate only"
    assert [arm["repeats_itself"] for arm in found["arms"]] == [False, True, True]
    assert found["arms"][0]["acceptance"]["rounds"] == 120
    assert found["schema"] == 1
    assert [(entry["a"], entry["b"]) for entry in (two, three)] == [
        ("native", "fix:taps+rope.theta"),
        ("fix:taps", "fix:taps+rope.theta"),
    ]
    assert three["tau"]["value"] == pytest.approx(1)


def test_boots_that_differ_are_the_unit(bench: Bench) -> None:
    bench.plan(more={"native 1": 1, "fix:taps 2": 1})
    found = bench.json(arms="native,fix:taps")
    (entry,) = found["differences"]
    assert entry["interval_over"] == "boots"
    low, high = entry["tau"]["interval"]
    # Boot figures: 2.5, 2.333 and 3.333, 3.5; Student's t with 2 degrees of freedom.
    reach = 4.302653 * (2 * ((1 / 6) ** 2 / 2) / 2) ** 0.5
    assert (low, high) == pytest.approx((1 - reach, 1 + reach), abs=1e-5)
    assert entry["p"] == pytest.approx(entry["comparison"]["figures"][0]["p"])


def test_what_is_printed(bench: Bench) -> None:
    code, out, err = bench.run()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("vLLM 0.32.0 (v1, cpu), contract ")
    assert re.match(r"native +2\.333 ± \d\.\d{3} +12 of 12", lines[2])
    assert re.match(
        r"fix:taps +3\.333 ± \d\.\d{3} +\+1\.000 \[\+1\.000, \+1\.000\] over prompts +12 of", lines[3]
    )
    assert lines[4] == "  fix taps.layers: 1,3,4 -> 1,4,6 (a key)"
    assert lines[5] == "  left TD426: still there"
    assert "fix:taps+rope.theta to fix:taps: +1.000 [+1.000, +1.000] over prompts" in lines
    assert "all boots of native, fix:taps, fix:taps+rope.theta counted the same" in out
    assert "says nothing about other boots" in out
    assert "as the engine counts" in out
    assert "\x1b" not in out


def test_records_are_what_compare_reads(bench: Bench) -> None:
    bench.run()
    arm = read_arm("A", [bench.folder / "out" / "records.jsonl"], "fix:taps", boots_from_files=False)
    assert arm.boots == ("1", "2")
    assert arm.rounds == 2 * 6 * 10
    line = json.loads((bench.folder / "out" / "records.jsonl").read_text().splitlines()[0])
    assert (line["engine"], line["version"], line["runner"], line["truncated"]) == (
        "vllm",
        "0.32.0",
        "v1",
        "engine",
    )
    assert line["histogram"] == [[4, 2, 10]]


def test_complete_boots_are_not_run_again_and_boots_can_be_added(bench: Bench) -> None:
    first = bench.json(boots=1)
    assert len(bench.started) == 4
    assert bench.json(boots=1) == first
    assert len(bench.started) == 4
    bench.json(boots=2)
    assert [entry[1] for entry in bench.started[4:]] == [2, 2, 2]


def test_a_boot_that_fails_is_one_line_and_nothing_is_reported(bench: Bench) -> None:
    bench.plan(fail={"fix:taps 2": "ValueError: Model Runner V1 does not support: this"})
    result = bench.run()
    refused(
        result, r"boot 2-2-fix-taps failed: ValueError: Model Runner V1 .* this \(log: .*2-2-fix-taps\.log\)"
    )
    assert "records.jsonl" not in bench.files
    assert "2-2-fix-taps.json" not in bench.files
    done = len(bench.started)
    bench.plan()
    assert bench.run()[0] == 0
    assert len(bench.started) == done + 7 - (done - 1), "only what is missing"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\nValueError: no\nINFO later\n", "ValueError: no"),
        ("(EngineCore pid=1) ERROR 11-30 RuntimeError: why\n", "RuntimeError: why"),
        (
            "x.ValidationError: 1 error\n  K\n    Value error, too large\nlater",
            "x.ValidationError: 1 error   K     Value",
        ),
        ("starting\n\nKilled\n", "Killed"),
        ("", ""),
    ],
)
def test_which_line_of_a_log_says_why(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "log").write_text(text)
    said = last_error(tmp_path / "log")
    assert said.startswith(found)
    assert bool(said) == bool(found)


def test_a_crash_after_the_result_is_a_failure(bench: Bench) -> None:
    bench.plan(crash_at_exit="native 1")
    refused(bench.run(), r"boot 1-1-native failed: INFO 11-30 starting")
    assert "1-1-native.json" not in bench.files


def test_a_boot_without_a_result(bench: Bench) -> None:
    bench.plan(nothing="plain 0")
    refused(bench.run(), r"boot 0-plain wrote no result \(log: ")


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(what: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_boot_that_hangs_is_ended_with_its_workers(bench: Bench) -> None:
    bench.plan(hang="native 1")
    refused(bench.run("--boot-timeout", "3"), r"boot 1-1-native took more than 3 s, ended \(log: ")
    pids = [bench.started[-1][4], int((bench.folder / "journal.worker").read_text())]
    wait_for(lambda: all(map(gone, pids)))
    assert not [name for name in bench.files if name.endswith(".job")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(bench: Bench, number: signal.Signals, code: int) -> None:
    bench.plan(hang="native 1")
    # A shell that runs tests in the background has children that ignore Ctrl-C.
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    start += "from truedraft.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, *bench.argv()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for((bench.folder / "journal.worker").exists, 120)
    wait_for(lambda: (bench.folder / "journal.worker").read_text())
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err.count("\n") <= 1
    pids = [bench.started[-1][4], int((bench.folder / "journal.worker").read_text())]
    wait_for(lambda: all(map(gone, pids)))
    assert {name for name in bench.files if not name.endswith(".log")} == {"0-plain.json"}


def test_outputs_that_differ_are_left_out_and_said(bench: Bench) -> None:
    bench.plan(differ=[["fix:taps 2", "p0"], ["fix:taps 1", "p4"]])
    code, out, err = bench.run("--json")
    found = json.loads(out)
    assert (code, err) == (1, "")
    assert found["lossless"]["left_out"] == ["p4", "p0"] or found["lossless"]["left_out"] == ["p0", "p4"]
    assert {entry["position"] for entry in found["lossless"]["differences"]} == {3}
    assert [arm["outputs"] for arm in found["arms"]] == [
        {"equal": 12, "of": 12},
        {"equal": 10, "of": 12},
        {"equal": 12, "of": 12},
    ]
    assert found["arms"][0]["tau"]["value"] == pytest.approx(2.25), "p0 had one draft more in every round"
    records = (bench.folder / "out" / "records.jsonl").read_text().splitlines()
    assert {json.loads(line)["prompt_id"] for line in records} == {"p1", "p2", "p3", "p5"}
    code, out, _ = bench.run()
    assert code == 1
    assert "2 prompts are left out of every figure and of the records" in out
    assert "fix:taps, boot 2: p0 differs from output token 3 on" in out


def test_no_acceptance_without_an_equal_output(bench: Bench) -> None:
    bench.plan(differ=[["native 1", f"p{i}"] for i in range(6)])
    code, out, _ = bench.run()
    assert code == 1
    assert "not reported" in out
    assert "over prompts" not in out


def test_cold_and_repeated_prompts(bench: Bench) -> None:
    arms = "native,native/no-block-drop"
    found = bench.json("--prefix-caching", "--repeat", "2", arms=arms)
    drafters = {arm: speculative for arm, _, _, speculative, *_ in bench.started}
    assert drafters["native/no-block-drop"]["disable_eagle_block_drop"] is True
    assert "disable_eagle_block_drop" not in drafters["native"]
    passes = [(arm["arm"], arm["passes"], arm["cached_tokens"]) for arm in found["arms"]]
    assert passes == [(a, p, c) for a in arms.split(",") for p, c in (("cold", 0), ("repeated", 2))]
    sides = [(entry["a"], entry["b"]) for entry in found["differences"]]
    assert sides[:2] == [(f"native ({p})", f"native/no-block-drop ({p})") for p in ("cold", "repeated")]
    assert sides[2:] == [(f"{a} (cold)", f"{a} (repeated)") for a in arms.split(",")]
    assert found["differences"][2]["tau"]["value"] == pytest.approx(-1)
    _, out, _ = bench.run("--prefix-caching", "--repeat", "2", arms=arms)
    assert "prefix cache with blocks of 32" in out
    assert re.search(r"native \(repeated\) +.*12 of 12 +-1\.000 \[.*\] over prompts +2 of 6", out)


def test_an_arm_without_the_cache_and_categories_of_prompts(bench: Bench) -> None:
    lines = [{"id": f"p{i}", "tokens": [5], "category": ("even", "odd")[i % 2]} for i in range(6)]
    (bench.folder / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    bench.plan(accepted={"native": 1, "native/no-prefix-cache": 2}, more={"native 1": 1})
    found = bench.json("--prefix-caching", arms="native,native/no-prefix-cache")
    cached = {arm: prefix_caching for arm, *_, prefix_caching in bench.started}
    assert cached == {"plain": True, "native": True, "native/no-prefix-cache": False}
    (entry,) = found["differences"]
    # One draft more in p1 of boot 1: 1/3 of the odd prompts in half of the boots.
    kinds = {name: change["tau"]["value"] for name, change in entry["categories"].items()}
    assert kinds == pytest.approx({"even": 1, "odd": 1 - 1 / 6})
    _, out, _ = bench.run("--prefix-caching", arms="native,native/no-prefix-cache")
    assert "native/no-prefix-cache to native, odd: +0.833 [" in out


def test_fix_without_the_plugin_is_no_fix(bench: Bench) -> None:
    bench.plan(no_plugin=True)
    refused(bench.run(), "arm fix:taps.* ran without the plugin's fix .is truedraft installed beside vLLM")
    assert not [name for name in bench.files if "fix" in name and name.endswith(".json")]


def test_boots_of_two_releases_are_not_compared(bench: Bench) -> None:
    bench.plan(version={"native 2": "0.33.0"})
    refused(bench.run(), "boots differ in versions: found .*0.32.0.* and .*0.33.0")


def test_rounds_of_unknown_length_are_refused(bench: Bench) -> None:
    bench.plan(short={"native 1": 2})
    refused(bench.run(), "38 drafts in 10 rounds of prompt p0, not 4 in each")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("{}", "a damaged result"),
        ('{"settings": {"k": 9}}', "a boot with contract_hash None"),
    ],
)
def test_damaged_results_are_named(bench: Bench, text: str, words: str) -> None:
    (bench.folder / "out").mkdir()
    (bench.folder / "out" / "0-plain.json").write_text(text)
    refused(bench.run(), f"0-plain.json: {words}")


def test_results_of_another_experiment_are_refused(bench: Bench) -> None:
    assert bench.run(boots=1)[0] == 0
    refused(
        bench.run("--max-new-tokens", "9", boots=1), "a boot with max_new_tokens 128, expected 9 as asked for"
    )
    before = len(bench.started)
    copy = bench.folder / "copy"
    shutil.copytree(Path(__file__).parents[2] / "src/truedraft/pairs/tiny/dflash-full", copy)
    config = json.loads((copy / "config.json").read_text()) | {"eagle_config": {"use_aux_hidden_state": True}}
    (copy / "config.json").write_text(json.dumps(config))
    argv = bench.argv(boots=1)
    argv[2] = str(copy)
    code = main(argv)
    refused((code, *bench.capsys.readouterr()), "a boot with draft [0-9a-f]{16}, expected")
    assert len(bench.started) == before


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--arms", "native,plain"], "found plain, which is run anyway"),
        (["--arms", "native,native"], "found 'native' twice"),
        (["--arms", "native,fix:tap"], "no axis and no group 'tap'"),
        (["--arms", "native,fix:"], "found 'fix:', expected native, fix or fix:AXIS.AXIS"),
        (["--arms", "native,fix:taps+"], "found 'fix:taps.', expected native, fix or fix:AXIS.AXIS"),
        (["--arms", "native,fix:taps+taps"], "found 'fix:taps.taps', expected native"),
        (["--arms", "native:taps"], "found 'native:taps', expected native, fix"),
        (["--arms", "native/drop"], "found 'native/drop'"),
        (["--arms", ""], "found ''"),
        (["--boots", "0"], "boots"),
        (["--set", "taps.layers=1,4"], "drafter width, 2 taps"),
        (["--set", "taps.layers=1, 4"], "found a space or semicolon"),
        (["--set", "no.axis=1"], "no.axis"),
        (["--engine-args", "{"], "--engine-args: not JSON"),
        (["--engine-args", '{"model": "x"}'], "found model, which the experiment sets itself"),
        (["--measured", "nowhere.json"], "nowhere.json"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--python", "nowhere/python"], "--python nowhere/python: found no such program"),
        (["--out", "no/such/folder"], "--out no/such/folder: No such file"),
        (
            ["--max-new-tokens", "2000"],
            "tokens and 2004 for output and drafts, expected at most the target's 1024",
        ),
        (["--boot-timeout", "nan"], "boot-timeout"),
        (["--engine", "sglang"], "engine"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(bench: Bench, more: list[str], words: str) -> None:
    refused(bench.run(*more), words)
    assert bench.started == []


def test_prompts_of_one_id_are_refused(bench: Bench) -> None:
    path = bench.folder / "prompts.jsonl"
    path.write_text('{"id": "a", "tokens": [5]}\n{"id": "a", "tokens": [6]}\n')
    refused(bench.run(), "prompt a: found twice")


def test_this_interpreter_needs_vllm(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = bench.argv()
    at = argv.index("--python")
    del argv[at : at + 2]
    code = main(argv)
    refused((code, *bench.capsys.readouterr()), "--python: this interpreter has no vLLM")


def test_out_must_be_a_folder(bench: Bench) -> None:
    (bench.folder / "out").write_text("")
    refused(bench.run(), "--out .*: File exists")
    assert os.path.isfile(bench.folder / "out")


@pytest.mark.parametrize("suffix", ["no-block-drop", "no-prefix-cache"])
def test_an_arm_that_shows_nothing_costs_no_boot(bench, suffix):
    bench.plan()
    code, out, err = bench.run(arms=f"native,fix/{suffix}")
    assert (code, out) == (2, "")
    assert f"found fix/{suffix}, expected --prefix-caching with it: without, it is the same as fix" in err
    assert bench.started == []


def test_a_boot_is_a_line_without_a_terminal(bench):
    bench.plan()
    assert main([word for word in bench.argv(arms="native", boots=1) if word != "--quiet"]) == 0
    err = bench.capsys.readouterr().err
    assert err.splitlines() == ["boot 1 of 2: plain", "boot 2 of 2: native"]
