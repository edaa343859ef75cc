"""`truedraft compare` and `truedraft plan`: what is printed, exit codes, and bad input in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from arm_records import FOUNDING, arm_records, record, write
from truedraft.cli import main
from truedraft.cli._compare_input import read_arm
from truedraft.cli._compare_text import comparison_lines
from truedraft.cli._style import Style
from truedraft.stats import Arm, compare

A, B = arm_records(1, boots=3), arm_records(2, boots=3, rate=0.75)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """`a`, `b`: three boots each, b better; `one`: a boot of a; `k7`: other K; `ab`: both arms."""
    sides = [[replace(r, arm=name) for r in side] for name, side in (("base", A), ("fix", B))]
    return {
        "a": write(tmp_path / "a.jsonl", A),
        "b": write(tmp_path / "b.jsonl", B),
        "one": write(tmp_path / "one.jsonl", [r for r in A if r.boot == "b0"]),
        "k7": write(tmp_path / "k7.jsonl", [replace(r, K=7) for r in A]),
        "ab": write(tmp_path / "ab.jsonl", sides[0] + sides[1]),
    }


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    return code, *capsys.readouterr()


def found(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    code, out, err = run(capsys, "compare", *argv, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_what_is_printed(capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    code, out, err = run(capsys, "compare", files["a"], files["b"], "--by", "category")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch(r" +A: a\.jsonl \(3 boots\) +B: b\.jsonl \(3 boots\)", lines[0])
    assert re.match(r"tau, pooled +\d\.\d{3} ± \d+\.\d% +\d\.\d{3} ± \d+\.\d% +\+\d", lines[1])
    assert [line.split()[0] for line in lines[2:4]] == ["chat", "code"]
    assert len({line.index(" ± ") for line in lines[1:8]}) == 1, "columns are aligned"
    assert "6 prompts paired, held fixed" in out
    assert "(independent), df 4.0" in out
    assert "text identical" in out
    assert "\x1b" not in out


def test_a_difference_that_is_not_shown_has_its_mde(
    capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> None:
    _, out, _ = run(capsys, "compare", files["a"], files["a"])
    rows = [line for line in out.splitlines() if "~  " in line]
    assert len(rows) == 11
    assert all(re.search(r"~  \(MDE \d+\.\d%, p=1\.000\)$", line) for line in rows)


def test_json_is_what_the_library_says(capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    result = found(capsys, files["a"], files["b"], "--by", "category", "--margin", "50%")
    wanted = compare(Arm("a", A), Arm("b", B), by_category=True, margin=0.5)
    assert (result["schema"], result["verdict"]) == (1, "higher")
    assert len(result["figures"]) == len(wanted.rows)
    for found_row, row in zip(result["figures"], wanted.rows, strict=True):
        assert row.test is not None
        key = (found_row["figure"], found_row["position"], found_row["category"])
        assert key == (row.figure, row.position, row.category)
        assert found_row["difference"]["interval"] == pytest.approx(list(row.test.interval()))
        assert (found_row["p"], found_row["p_adjusted"]) == pytest.approx((row.test.p, row.p))
        assert (found_row["verdict"], found_row["equivalent"]) == (row.verdict, row.equivalent)
        assert found_row["detectable"] == pytest.approx(row.detectable)
    assert result["design"]["boots"] == "independent"
    assert result["a"]["boots"] == ["b0", "b1", "b2"]


@pytest.mark.parametrize(("before", "after"), [("native", "aux fix"), ("aux fix", "aux and rope fix")])
def test_the_founding_comparisons(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, before: str, after: str
) -> None:
    """One boot per arm: estimates and no verdict, whatever is asked."""
    names = []
    for name in (before, after):
        rows = tuple((5, accepted, rounds) for accepted, rounds in enumerate(FOUNDING[name][2]))
        names.append(write(tmp_path / f"{name}.jsonl", [record("", "probes", histogram=rows, K=5)]))
    code, out, _ = run(capsys, "compare", *names, "--margin", "2%", "--fail-on", "regression")
    assert code == 3
    assert "estimate only, no verdict" in out
    rows = out.splitlines()[1:14]
    assert all(line.endswith("estimate only") for line in rows)
    assert not re.search(r"p=|~|MDE|within", out)
    for name in (before, after):
        first, tau, _ = FOUNDING[name]
        assert f"{tau:.3f}" in rows[0]
        assert any(line.startswith("survival 0") and f"{first:.3f}" in line for line in rows)


def test_several_files_a_side_and_boots_from_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: dict[str, str]
) -> None:
    """Files of a boot each, without and with a name for it, give what one file of all boots gives."""
    whole = found(capsys, files["a"], files["b"])["figures"]
    for boot, extra in (("", []), ("same", ["--boots-from-files"])):
        names: list[str] = []
        for side, records in (("a", A), ("b", B)):
            for i in range(3):
                part = [replace(r, boot=boot) for r in records if r.boot == f"b{i}"]
                names.append(write(tmp_path / f"{side}{i}{boot}.jsonl", part))
        split = found(capsys, *names[:3], "vs", *names[3:], *extra)
        assert split["figures"] == whole
        assert split["a"]["boots"] == ["file 1", "file 2", "file 3"]


def test_arms_from_one_file(capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    split = found(capsys, files["ab"], "--arm-a", "base", "--arm-b", "fix")
    assert split["figures"] == found(capsys, files["a"], files["b"])["figures"]
    assert (split["a"]["name"], split["b"]["name"]) == ("A: base", "B: fix")
    assert found(capsys, files["ab"], "vs", files["b"], "--arm-a", "base")["verdict"] == "higher"


def test_different_k(capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    _, out, _ = run(capsys, "compare", files["a"], files["k7"])
    assert "tau only: K is 4 and 7" in out
    assert not re.search("survival|rate", out)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("a", "b", "--fail-on", "regression"), 0),
        (("a", "a", "--fail-on", "regression"), 0),
        (("b", "a"), 0),
        (("b", "a", "--fail-on", "regression"), 1),
        (("b", "a", "--fail-on", "regression", "--by", "category"), 1),
        (("a", "one"), 0),
        (("a", "one", "--fail-on", "regression"), 3),
        (("a", "a", "--margin", "50%", "--fail-on", "not-equivalent"), 0),
        (("a", "a", "--margin", "0.1%", "--fail-on", "not-equivalent"), 1),
        (("a", "b", "--margin", "2 %", "--fail-on", "not-equivalent"), 1),
    ],
)
def test_exit_codes(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], argv: tuple[str, ...], code: int
) -> None:
    assert run(capsys, "compare", *(files.get(word, word) for word in argv))[0] == code


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("compare", "a"), "found no file of B"),
        (("compare", "vs", "a"), "found no file of A"),
        (("compare", "a", "vs", "b", "vs", "b"), "found no file of B"),
        (("compare", "a", "b", "one"), "found 3 files, expected 2, or `vs`"),
        (("compare", "a", "a", "vs", "b"), "found twice in A"),
        (("compare", "a", "missing"), "No such file"),
        (("compare", "a", "bad"), "bad.jsonl:2"),
        (("compare", "a", "empty"), "found no record"),
        (("compare", "a", "theta"), "expected one definition of tau"),
        (("compare", "a", "trees"), "chains and trees"),
        (("compare", "a", "copies"), "are one run"),
        (("compare", "wide", "wide"), "expected at most 1024"),
        (("compare", "a", "ab"), "choose with --arm-a, --arm-b"),
        (
            ("compare", "ab", "--arm-a", "base", "--arm-b", "fxi"),
            "no record with arm 'fxi', only 'base', 'fix'",
        ),
        (("compare", "a", "b", "--margin", "2"), "expected a percentage"),
        (("compare", "a", "b", "--margin", "x%"), "expected a percentage"),
        (("compare", "a", "b", "--margin", "100%"), "between 0% and 100%"),
        (("compare", "a", "b", "--margin", "nan%"), "between 0% and 100%"),
        (("compare", "a", "b", "--fail-on", "not-equivalent"), "found no --margin"),
        (("compare", "a", "one", "--boots", "paired"), "expected equal numbers"),
        (("compare", "plain", "plain", "--by", "category"), "no record with a category"),
        (("compare",), "Missing argument"),
        (("compare", "a", "one", "vs", "b"), "found prompt 'p0' of boot 'b0', as in"),
        (("plan", "a", "b", "--effect", "2%"), "or --boots-from-files"),
        (("plan", "one", "--effect", "2%"), "only boots show"),
        (("plan", "a"), "Missing option"),
        (("plan", "a", "--effect", "2"), "expected a percentage"),
        (("plan", "a", "--effect", "2%", "--power", "1"), "power"),
        (("plan", "a", "--effect", "2%", "--power", "nan"), "no finite number"),
        (("plan", "a", "--effect", "nan%"), "expected a percentage"),
        (("plan", "a", "--effect", "1_0%"), "expected a percentage"),
        (("plan", "k4and7", "--effect", "2%"), "found records with K 4 and 7"),
        (("plan", "copies", "--effect", "2%"), "are one run"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    files: dict[str, str],
    argv: tuple[str, ...],
    message: str,
) -> None:
    first = [r for r in A if r.boot == "b0"]
    made = {
        "bad": (tmp_path / "bad.jsonl", json.dumps(A[0].to_json()) + "\n{}\n"),
        "empty": (tmp_path / "empty.jsonl", "\n\n"),
    }
    for path, text in made.values():
        path.write_text(text)
    names = {
        **files,
        **{name: str(path) for name, (path, _) in made.items()},
        "missing": str(tmp_path / "missing.jsonl"),
        "theta": write(tmp_path / "theta.jsonl", [replace(r, truncated="theta") for r in A]),
        "trees": write(tmp_path / "trees.jsonl", [replace(r, tree_budget=8) for r in A]),
        "copies": write(tmp_path / "copies.jsonl", first + [replace(r, boot="x") for r in first]),
        "wide": write(tmp_path / "wide.jsonl", [record(histogram=((10**15, 3, 5),), K=10**15)]),
        "k4and7": write(tmp_path / "k47.jsonl", [replace(r, K=7 if r.boot == "b1" else 4) for r in A]),
        "plain": write(tmp_path / "plain.jsonl", [replace(r, category="") for r in A]),
    }
    code, out, err = run(capsys, *(names.get(word, word) for word in argv))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_text_from_records_cannot_drive_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = "\x1b[31mred\u202e"
    evil = write(tmp_path / "evil.jsonl", [replace(r, category=name, engine=name) for r in A])
    other = write(tmp_path / "other.jsonl", [replace(r, category=name) for r in B])
    _, out, _ = run(capsys, "compare", evil, other, "--by", "category")
    assert not {"\x1b", "\u202e"} & set(out)
    assert found(capsys, evil, other, "--by", "category")["figures"][0]["category"] == name


def test_stdin_is_a_file(files: dict[str, str]) -> None:
    command = [sys.executable, "-m", "truedraft", "compare", "-", files["b"]]
    text = Path(files["a"]).read_text()
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert "tau, pooled" in done.stdout


def test_without_numpy_it_says_what_to_install(files: dict[str, str]) -> None:
    code = (
        "import sys; sys.modules['numpy'] = None; "
        "from truedraft.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    for argv in (["compare", files["a"], files["b"]], ["plan", files["a"], "--effect", "2%"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "truedraft[engine] installs" in done.stderr
        assert done.stderr.count("\n") == 1


def test_comparing_needs_no_torch(files: dict[str, str]) -> None:
    code = (
        "import sys; from truedraft.cli import main; main(sys.argv[1:]); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    command = [sys.executable, "-c", code, "compare", files["a"], files["b"]]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def test_a_plan(capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    code, out, _ = run(capsys, "plan", files["a"], files["b"], "--effect", "5%", "--boots-from-files")
    assert code == 0
    assert "2 boots, 6 prompts" in out
    assert "a larger pilot" in out
    code, out, _ = run(capsys, "plan", files["a"], "--effect", "5%")
    assert code == 0
    assert "3 boots, 6 prompts" in out
    assert "boots per arm to see a change of 5.00% with power 80%, level 5 %" in out
    code, out, _ = run(capsys, "plan", files["a"], "--effect", "5%", "--power", "0.9", "--json")
    result = json.loads(out)
    assert [plan["prompts"] for plan in result["plans"]] == [3, 6, 12, 24]
    boots = [plan["boots_per_arm"] for plan in result["plans"]]
    assert boots == sorted(boots, reverse=True)
    assert all(p["boots_per_arm"] > p["boots_per_arm_if_pilot_is_exact"] for p in result["plans"])
    assert (result["pilot"]["df"], result["power"]) == (2, 0.9)


def test_memory_does_not_grow_with_rounds(tmp_path: Path) -> None:
    """Ten times the rounds in lines of the same length; what is kept are counts and one hash per request."""
    peaks = []
    for requests in (20, 200):
        entry = record(proposed=(4,) * 500, accepted=(0, 1, 2, 3, 4) * 100)
        path = Path(write(tmp_path / f"{requests}.jsonl", [entry] * requests))
        read_arm("a", [path], None, boots_from_files=False)  # caches fill
        tracemalloc.start()
        arm = read_arm("a", [path], None, boots_from_files=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert arm.rounds == 500 * requests
    assert peaks[1] < 1.5 * peaks[0]


def test_colour_on_terminals_only(files: dict[str, str]) -> None:
    result = compare(Arm("a", A), Arm("b", B))
    plain, colour = (list(comparison_lines(result, Style(on))) for on in (False, True))
    assert not any("\x1b" in line for line in plain)
    assert colour[1] == f"\x1b[1m{plain[1]}\x1b[0m"


def test_boots_that_repeat_themselves_are_no_boots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [r for r in A if r.boot == "b0"]
    twice = [replace(r, boot=f"b{i}", started=r.started + 1000 * i) for i in range(2) for r in first]
    a = write(tmp_path / "a.jsonl", twice)
    result = found(capsys, a, write(tmp_path / "b.jsonl", [r for r in B if r.boot != "b2"]))
    assert {row["verdict"] for row in result["figures"]} == {"estimate only"}
    assert any("as good as one boot" in warning for warning in result["warnings"])
    code, out, err = run(capsys, "plan", a, "--effect", "2%")
    assert (code, out) == (2, "")
    assert "no spread to plan from" in err
