"""`truedraft check`, `explain` and `engines`: what they print in every format, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from checkpoints import DATA, TARGET, ZLAB, changed, write

from truedraft.checks import SEVERITIES, Finding, Report, all_rules
from truedraft.cli import main
from truedraft.cli._check_output import FORMATS, Page
from truedraft.cli._style import Style
from truedraft.contract import PairError
from truedraft.formats.engines import ENGINES

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = jsonschema.Draft202012Validator(json.loads((DATA / "sarif-subset.schema.json").read_text()))

NASTY = "x\x1b[31m\r\n::error::pwned\x9b2J\u202e\x07%0A{0}[a](https://evil)\x00]0;title\ud800 end"
"""A key: terminal escapes of 7 and 8 bits, a workflow command, a placeholder, a link, a lone surrogate."""

CONFLICT = {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}


@pytest.fixture
def broken(tmp_path: Path) -> list[str]:
    """One error (TD101), and a warning (TD104) about a key that no terminal should see."""
    target = write(tmp_path / "target", TARGET)
    draft = write(tmp_path / "draft", changed(ZLAB, CONFLICT) | {NASTY: 1})
    return ["check", str(target), str(draft), "--select", "TD101", "--select", "TD104"]


@pytest.fixture
def unknown(tmp_path: Path) -> list[str]:
    """A drafter of a family that no reader covers, by an architecture with a nasty name."""
    target = write(tmp_path / "target", TARGET)
    draft = write(tmp_path / "draft", {"architectures": ["MedusaModel" + NASTY], "model_type": "medusa"})
    return ["check", str(target), str(draft)]


def call(capsys: pytest.CaptureFixture[str], arguments: list[str], *more: str) -> tuple[int, str, str]:
    code = main([*arguments, *more])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def is_safe(text: str) -> bool:
    """Whether a terminal shows the text as it is, line breaks aside."""
    return all(c.isprintable() or c == "\n" for c in text)


def report(**more: Any) -> Report:
    finding = Finding(
        "TD101", "error", "certain", "a message", "draft/config.json#/a", "rope.theta", 1.0, 2.0
    )
    from dataclasses import replace

    return Report((replace(finding, **more),))


def printed(layout: str, of: Report, quiet: bool = False, places: dict[str, str] | None = None) -> str:
    return "\n".join(FORMATS[layout](Page(of, Style(), quiet, places or {})))


# Text


def test_text_has_the_gravest_first_and_all_details(
    broken: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, broken)
    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0].startswith("error TD101 rope.theta: sources disagree")
    assert [line[:12] for line in lines[1:5]] == [
        "  where     ",
        "  found     ",
        "  expected  ",
        "  fix       ",
    ]
    heads = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert heads == ["error", "warning", "1"]
    assert lines[-1] == "1 error, 1 warning; `truedraft explain CODE` has the manual page of each"
    assert is_safe(out)
    assert "x\\x1b[31m" in out


def test_quiet_is_a_line_per_finding(broken: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, broken, "--quiet")
    assert code == 1
    assert len(out.splitlines()) == 3


def test_nothing_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, ["check", "tiny/dflash"]) == (0, "nothing found\n", "")


def test_plural_and_every_detail() -> None:
    finding = report(fix="do this", references=("vllm#1", "vllm#2")).findings[0]
    out = printed("text", Report((finding, finding)))
    assert "  found     1\n  expected  2\n  fix       do this\n  see       vllm#1, vllm#2" in out
    assert out.endswith("\n2 errors; `truedraft explain CODE` has the manual page of each")


def test_colour_only_on_a_terminal_without_no_color(
    broken: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = call(capsys, broken)[1]
    assert "\x1b[33m" in out
    assert is_safe(re.sub(r"\x1b\[(?:0|1|2|33)m", "", out))
    assert "\x1b" not in call(capsys, broken, "--format", "github")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert is_safe(call(capsys, broken)[1])


# JSON


def test_json_is_the_schema_of_the_documentation(
    broken: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, broken, "--json")
    assert (code, err) == (1, "")
    assert (code, out, err) == call(capsys, broken, "--format", "json")
    assert is_safe(out)
    assert not any("\ud800" <= c <= "\udfff" for c in out)
    data = json.loads(out)
    assert list(data) == ["schema", "findings", "counts", "undecided"]
    assert (data["schema"], data["undecided"]) == (1, None)
    assert data["counts"] == {"error": 1, "warning": 1, "note": 0}
    keys = ["code", "severity", "confidence", "axis", "message", "found", "expected", "where", "fix"]
    for finding in data["findings"]:
        assert list(finding) == [*keys, "references"]
        assert finding["severity"] in SEVERITIES
        assert finding["confidence"] in ("certain", "likely", "possible")
        assert all(isinstance(finding[key], str) for key in ("code", "message", "where", "fix"))
        assert all(isinstance(reference, str) for reference in finding["references"])
    first, second = data["findings"]
    assert (first["axis"], first["found"], first["expected"]) == ("rope.theta", [1e4] * 3, [1e6] * 3)
    assert NASTY[:9] in second["message"]  # the key itself, as JSON can say it
    assert second["axis"] is None


# GitHub


def annotations(out: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as the runner reads them (actions/runner, ActionCommand.TryParseV2)."""
    found = []
    for line in out.splitlines():
        command = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        assert command, line
        pairs = (entry.partition("=") for entry in command[2].split(","))
        found.append((command[1], {name: unquote(value) for name, _, value in pairs}, unquote(command[3])))
    return found


def test_github_annotations(broken: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, broken, "--format", "github")
    assert code == 1
    assert is_safe(out)
    (first, properties, message), (second, _, other) = annotations(out)
    assert (first, second) == ("error", "warning")
    assert properties == {"file": "draft/config.json", "title": "TD101 rope.theta"}
    assert message.startswith("sources disagree: rope.theta: draft/config.json#/")
    assert "\nfix: make the files agree" in message
    assert "\\r\\n::error::pwned\\x9b2J\\u202e\\x07%0A{0}" in other  # as text, in one annotation


def test_github_escapes_properties() -> None:
    out = printed("github", report(where="draft/a:b,c%\n::error::x#/k", axis="a,b:c"))
    assert out.startswith(
        "::error file=draft/a%3Ab%2Cc%25\\n%3A%3Aerror%3A%3Ax,title=TD101 a%2Cb%3Ac::a message"
    )
    assert annotations(out)[0][1]["file"] == "draft/a:b,c%\\n::error::x"


def test_github_names_files_of_the_repository(
    broken: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    file = f"{tmp_path.name}/draft/config.json"
    out = call(capsys, broken, "--format", "github")[1]
    assert annotations(out)[0][1]["file"] == file
    log = json.loads(call(capsys, broken, "--format", "sarif")[1])
    location = log["runs"][0]["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == file


def test_github_without_a_file() -> None:
    out = printed("github", report(where="boot log, line 3"))
    assert out == "::error title=TD101 rope.theta::a message"
    assert printed("github", Report((), "what\n::error::x")) == (
        "::warning title=not checked::what\\n::error::x"
    )


# SARIF


def sarif(text: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(text)
    SCHEMA.validate(log)
    run = log["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return log


def test_sarif(broken: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, broken, "--format", "sarif")
    assert code == 1
    assert is_safe(out)
    run = sarif(out)["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.code for rule in all_rules()]
    assert [result["level"] for result in run["results"]] == ["error", "warning"]
    first = run["results"][0]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "draft/config.json"
    assert first["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].startswith("draft/config.json#")
    assert first["properties"]["axis"] == "rope.theta"
    assert "invocations" not in run
    message = run["results"][1]["message"]["text"]
    assert "{{0}}[a] (https:" in message


@pytest.mark.parametrize("axis", [None, "rope.theta"])
@pytest.mark.parametrize("value", [None, 0, False, "", 1.5, (1, None), "a\nb", NASTY])
@pytest.mark.parametrize("where", ["draft/config.json", "target/näme x%.safetensors#a", "kv layout", NASTY])
def test_sarif_of_any_finding(axis: str | None, value: Any, where: str) -> None:
    sarif(printed("sarif", report(axis=axis, found=value, expected=value, where=where, message=NASTY)))


def test_sarif_schema_refuses_what_it_should(broken: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    log = sarif(call(capsys, broken, "--format", "sarif")[1])
    for pointer, value in {
        "version": "2.0.0",
        "more": 1,
        "runs/0/results/0/level": "fatal",
        "runs/0/results/0/message/text": "{0}",
        "runs/0/results/0/locations": [],
        "runs/0/results/0/locations/0/physicalLocation/artifactLocation/uri": "/etc/passwd",
    }.items():
        spoilt = json.loads(json.dumps(log))
        *parents, last = pointer.split("/")
        node: Any = spoilt
        for name in parents:
            node = node[int(name)] if isinstance(node, list) else node[name]
        node[last] = value
        assert not SCHEMA.is_valid(spoilt), pointer


# Exit codes, selection


def test_a_family_that_cannot_be_checked(unknown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, unknown)
    assert (code, err) == (3, "")
    assert out.startswith("not checked: ")
    assert is_safe(out)
    code, out, _ = call(capsys, unknown, "--json")
    assert code == 3
    assert json.loads(out)["undecided"]
    code, out, _ = call(capsys, unknown, "--format", "github")
    assert code == 3
    assert re.match(r"::warning title=not checked::.+\n$", out)
    code, out, _ = call(capsys, unknown, "--format", "sarif")
    assert code == 3
    invocation = sarif(out)["runs"][0]["invocations"][0]
    assert invocation["toolExecutionNotifications"][0]["level"] == "warning"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ((), 1),
        (("--fail-on", "note"), 1),
        (("--fail-on", "warning"), 1),
        (("--fail-on", "never"), 0),
        (("--ignore", "TD101"), 0),
        (("--ignore", "TD101", "--fail-on", "warning"), 1),
        (("--ignore", "td10"), 0),
    ],
)
def test_fail_on_and_ignore(
    more: tuple[str, ...], code: int, broken: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, broken, *more)[0] == code


def test_select_takes_beginnings_in_either_case(
    broken: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pair = broken[:3]
    for prefix in ("TD101", "td101", "TD10", "td1", "t"):
        out = call(capsys, pair, "--select", prefix, "--ignore", "TD104", "--json")[1]
        assert "TD101" in {finding["code"] for finding in json.loads(out)["findings"]}
    assert json.loads(call(capsys, pair, "--select", "TD4", "--json")[1])["findings"] == []


def test_notes_want_pedantic_or_their_code(capsys: pytest.CaptureFixture[str]) -> None:
    """That vLLM drops 16 tokens of a prefix hit of a dense target is worth a note."""

    def codes(*more: str) -> set[str]:
        arguments = ["check", "tiny/dflash", "--engine", "vllm:0.32.0:v2", "--json", *more]
        code, out, _ = call(capsys, arguments)
        assert code == ("--fail-on" in more)
        return {finding["code"] for finding in json.loads(out)["findings"]}

    assert codes() == set()
    assert "TD422" in codes("--pedantic")
    assert codes("--select", "TD422") == {"TD422"}
    assert codes("--select", "block-drop,TD1") == {"TD422"}
    assert codes("--select", "TD4") == set()
    assert "TD422" in codes("--pedantic", "--fail-on", "note")


def test_a_right_boot_log_is_explained_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("Using auxiliary layers from speculative config: (1, 4, 7)")
    code, out, _ = call(capsys, ["check", "tiny/dflash", "--boot-log", str(tmp_path / "log")])
    assert code == 0
    assert "vLLM's V1 runner captures the outputs of 0/3/6, the contract says 0/3/6, the same" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "Missing argument 'TARGET'"),
        (["check", "nowhere"], "'nowhere': no such directory"),
        (["check", "tiny", "--engine", "vlm"], "--engine vlm: no such engine, expected one of"),
        (["check", "tiny", "--engine", "vllm:0.99"], "this release is not known, expected one of"),
        (["check", "tiny", "--engine", ""], "no such engine"),
        (["check", "tiny", "--select", "TD999"], "no rule begins with 'TD999'"),
        (["check", "tiny", "--ignore", ""], "no rule begins with ''"),
        (["check", "tiny", "--fail-on", "fatal"], "'fatal' is not one of"),
        (["check", "tiny", "--format", "xml"], "'xml' is not one of"),
        (["check", "tiny", "--k", "0"], "0 is not in the range"),
        (["check", "tiny", "--set", "rope.theta"], "expected axis=value"),
        (["check", "tiny", "--boot-log", "nowhere"], "nowhere: No such file or directory"),
        (["check", "tiny", "--boot-log", "."], "Is a directory"),
        (
            ["check", "tiny", "--boot-log", str(DATA / "configs" / "SOURCES.md")],
            "found no line that names auxiliary layers",
        ),
        (["check", "tiny", "--kv-layout", "nowhere"], "nowhere: no such file"),
        (["check", "tiny", "--prompts", "nowhere"], "nowhere: No such file or directory"),
        (["check", "tiny", "--records", __file__], f"{__file__}:1: not "),
        (["explain", "TD999"], "no rule 'TD999', expected one of TD101"),
        (["explain", ""], "no rule ''"),
        (["explain", "x" * 500], "no rule"),
        (["engines", "vllm"], "unexpected extra argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, arguments)
    assert (code, out) == (2, "")
    assert err.startswith("truedraft: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_errors_from_files_have_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    index = draft / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {NASTY: "../x"}}))
    for command in ("check", "contract"):
        code, _, err = call(capsys, [command, str(target), str(draft)])
        assert code == 2
        assert "\\x1b[31m" in err
        assert is_safe(err)
        assert err.count("\n") == 1

    def fail(*_: object) -> None:
        raise PairError("taps", NASTY, "a", "b")

    monkeypatch.setattr("truedraft.cli._check_input.inspect", fail)
    assert is_safe(call(capsys, ["check", str(target), str(draft)])[2])


def test_boot_logs_of_restarts_and_of_nonsense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    line = b"(Worker) Using auxiliary layers from speculative config: (40, 41, 42)\r\n"
    log.write_bytes(b"\xff\x00\x1b[31m" + line * 50 + b"x" * 10**6 + b"\n" + line)
    code, out, _ = call(capsys, ["check", "tiny/dflash", "--boot-log", str(log), "--json"])
    assert code == 1
    assert [finding["code"] for finding in json.loads(out)["findings"]] == ["TD430"]
    with log.open("wb") as file:
        file.truncate(2**27)
    code, _, err = call(capsys, ["check", "tiny/dflash", "--boot-log", str(log)])
    assert (code, "found no line that names auxiliary layers" in err) == (2, True)
    with log.open("r+b") as file:  # what stands before the limit is used
        file.write(line)
    assert call(capsys, ["check", "tiny/dflash", "--boot-log", str(log)])[0] == 1


def test_a_kv_layout_may_be_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = {"shape": [2, 1, 8], "offset": 0, "stride": 8}
    layout = {"views": [view], "allocation": 16, "zero": {"span": 8, "stride": 8}}
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "layout.json").write_text(json.dumps(layout))
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "layout.json").symlink_to(Path("..", "real", "layout.json"))
    arguments = ["check", "tiny/dflash", "--kv-layout", str(tmp_path / "link" / "layout.json")]
    assert call(capsys, arguments)[0] == 0


# explain, engines


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    rule = all_rules()[0]
    code, page, _ = call(capsys, ["explain", rule.code])
    assert code == 0
    assert page.startswith(f"{rule.code} {rule.name}\n\n{rule.title}.\n")
    for name in (rule.code.lower(), rule.name, rule.name.upper()):
        assert call(capsys, ["explain", name]) == (0, page, "")
    assert is_safe(page)


def test_explain_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, ["explain"])
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [[r.code, r.name] for r in all_rules()]


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "td101"]])
def test_explain_as_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, [*arguments, "--json"])
    assert code == 0
    data = json.loads(out)
    assert list(data) == ["schema", "rules"]
    assert len(data["rules"]) == (1 if len(arguments) == 2 else len(all_rules()))
    assert list(data["rules"][0]) == ["code", "name", "title", "manual"]


def test_engines(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, ["engines"])
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [str(engine.id) for engine in ENGINES]
    code, out, _ = call(capsys, ["engines", "--json"])
    assert code == 0
    data = json.loads(out)
    assert list(data) == ["schema", "engines"]
    assert list(data["engines"][0]) == ["engine", "name", "version", "runner", "known_from"]
    for row in data["engines"]:
        assert call(capsys, ["check", "tiny/dflash", "--engine", row["engine"]])[0] in (0, 1)


# Streams


def shell(command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A command line in a shell; `TRUEDRAFT` stands for the program."""
    line = command.replace("TRUEDRAFT", f"'{sys.executable}' -m truedraft")
    environment = os.environ | more
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        ("TRUEDRAFT check tiny/dflash >&-", 0, ""),
        ("TRUEDRAFT check tiny/dflash >&- 2>&- <&-", 0, ""),
        ("TRUEDRAFT check nowhere >&- 2>&-", 2, ""),
        (
            "TRUEDRAFT check tiny/dflash --boot-log - <&-",
            2,
            "truedraft: error: -: stdin is closed, expected a text file\n",
        ),
        (
            "echo 'Using auxiliary layers from speculative config: (1, 4, 7)' | "
            "TRUEDRAFT check tiny/dflash --boot-log -",
            0,
            "",
        ),
    ],
)
def test_closed_streams_and_pipes(line: str, code: int, err: str) -> None:
    done = shell(line)
    assert (done.returncode, done.stderr) == (code, err)


@pytest.mark.parametrize("encoding", ["ascii", "iso8859_5"])
def test_output_that_cannot_hold_the_characters(encoding: str, broken: list[str]) -> None:
    for layout in FORMATS:
        done = subprocess.run(
            [sys.executable, "-m", "truedraft", *broken, "--format", layout],
            capture_output=True,
            env=os.environ | {"PYTHONIOENCODING": encoding},
        )
        assert (done.returncode, done.stderr) == (1, b"")
        assert done.stdout.count(b"TD101")


def test_check_loads_nothing_heavy() -> None:
    program = (
        "import sys; from truedraft.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'torch', 'transformers', 'safetensors', 'numpy', 'rich', 'urllib.request', 'ssl'}; "
        "sys.exit(code or ', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "check", "tiny/dflash", "--engine", "vllm"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
