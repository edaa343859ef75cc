"""`truedraft contract`: text, JSON, exit codes, and what it must not import."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from truedraft.cli import main
from truedraft.contract import AXES, UndecidedError
from truedraft.formats import resolve

GOLDENS = Path(__file__).parent.parent / "data" / "goldens"
PAIR = GOLDENS / "dflash_zlab_swa_causal"
ARGUMENTS = ["contract", str(PAIR / "target"), str(PAIR / "draft")]


@pytest.fixture
def broken(tmp_path: Path) -> list[str]:
    """A pair with an unknown axis, a conflict and an unread key, without weights."""
    for role in ("target", "draft"):
        (tmp_path / role).mkdir()
        shutil.copy(PAIR / role / "config.json", tmp_path / role)
    file = tmp_path / "draft" / "config.json"
    config: dict[str, Any] = json.loads(file.read_text())
    del config["dflash_config"]["mask_token_id"]
    config |= {"use_sliding_window": False, "surprise": 1}
    file.write_text(json.dumps(config))
    return ["contract", str(tmp_path / "target"), str(tmp_path / "draft")]


def test_json_is_the_schema_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    keys = ["schema", "contract_hash", "family", "dialect", "axes", "conflicts", "unread_keys", "unknown"]
    assert list(out) == keys
    assert out["schema"] == 1
    assert (out["family"], out["dialect"]) == ("dflash", "zlab")
    assert list(out["axes"]) == list(AXES)
    assert out["axes"]["taps.layers"] == {
        "state": "value",
        "value": [0, 2, 4],
        "source": {"kind": "stated", "where": "draft/config.json#/dflash_config/target_layer_ids"},
    }
    for axis in out["axes"].values():
        assert set(axis) <= {"state", "value", "source", "note"}
        assert ("value" in axis) == ("source" in axis) == (axis["state"] == "value")
    assert out["unknown"] == [n for n, axis in out["axes"].items() if axis["state"] == "unknown"]
    assert out["contract_hash"] == resolve(PAIR / "target", PAIR / "draft").contract.hash


def test_json_lists_conflicts_and_unread_keys(broken: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*broken, "--json", "--quiet"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["conflicts"] == [
        {
            "axis": "attention.window",
            "sources": [
                {"value": [16, 16, None], "kind": "stated", "where": "draft/config.json#/layer_types"},
                {"value": [None] * 3, "kind": "stated", "where": "draft/config.json#/use_sliding_window"},
            ],
        }
    ]
    assert out["unread_keys"] == ["draft/config.json#/surprise"]
    assert "block.mask_token_id" in out["unknown"]


def test_text_has_every_axis_and_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ARGUMENTS) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("contract ")
    assert lines[0].endswith("family dflash  dialect zlab")
    rows = {line.split()[0]: line.split() for line in lines if line and line.split()[0] in AXES}
    assert list(rows) == list(AXES)
    assert rows["attention.window"][1:4] == ["16,16,none", "stated", "draft/config.json#/layer_types"]
    assert not any("\x1b" in line for line in lines)


def test_text_says_how_to_settle(broken: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*broken, "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "--set block.mask_token_id=VALUE, a whole number >= 0" in out
    assert "--set attention.window=16,16,none or --set attention.window=3×none" in out
    assert "draft/config.json#/surprise" in out
    assert "taps.layers" not in out
    settled = ["--set", "attention.window=3×none", "--set", "block.mask_token_id=1"]
    assert main([*broken, "--quiet", *settled]) == 0
    assert "run refuses" not in capsys.readouterr().out


def test_override_reaches_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--json", "--set", "rope.theta[0]=5e5"]) == 0
    axis = json.loads(capsys.readouterr().out)["axes"]["rope.theta"]
    assert axis["value"] == [5e5, 1e6, 1e6]
    assert axis["source"] == {"kind": "override", "where": "--set rope.theta[0]=5e5"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing command"),
        (["contrct"], "No such command"),
        (["contract"], "Missing argument"),
        (["contract", "--colour"], "No such option"),
        (["contract", "a", "b", "c"], "unexpected extra argument"),
        (["contract", "nowhere"], "'nowhere': no such directory"),
        (["contract", ""], "'': no such directory"),
        (["contract", "x" * 5000], "File name too long"),
        (["contract", str(PAIR / "target"), str(PAIR / "io.safetensors")], "a file, expected the directory"),
        (["contract", str(PAIR / "target")], "no drafter inside"),
        ([*ARGUMENTS, "--set", "taps.layer=1"], "did you mean taps.layers?"),
        ([*ARGUMENTS, "--set", "taps.layers=1,99,2"], "a tap beyond the target"),
        ([*ARGUMENTS, "--set", "a\nb"], "expected axis=value"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("truedraft: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "truedraft: error: interrupted\n"),
        (UndecidedError("which one?"), 3, "truedraft: error: which one?\n"),
    ],
)
def test_other_ends(
    raised: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr("truedraft.cli.contract.resolve", fail)
    assert main(ARGUMENTS) == code
    assert capsys.readouterr().err == line


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("truedraft ")
    assert main(["--help"]) == 0
    assert "contract" in capsys.readouterr().out
    assert main(["contract", "--help"]) == 0
    assert "--set" in capsys.readouterr().out


def test_loads_neither_torch_nor_rich() -> None:
    program = (
        "import sys; from truedraft.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'torch', 'transformers', 'safetensors', 'numpy', 'rich'} & set(sys.modules); "
        "sys.exit(code or ', '.join(sorted(heavy)) or 0)"
    )
    for arguments in (ARGUMENTS, [*ARGUMENTS, "--json"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=os.environ
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_reader_that_leaves_early_is_no_error() -> None:
    done = subprocess.Popen(
        [sys.executable, "-m", "truedraft", *ARGUMENTS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert done.stdout is not None
    assert done.stderr is not None
    done.stdout.close()
    assert done.stderr.read() == b""
    done.stderr.close()
    assert done.wait() == 141


def test_colour_only_on_a_terminal_without_no_color(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(ARGUMENTS)
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(ARGUMENTS)
    assert "\x1b[" not in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "iso8859_5"])
def test_output_that_cannot_hold_the_characters(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "truedraft", *ARGUMENTS],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"residual" in done.stdout


def test_engine_shows_what_a_release_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "tiny/dflash", "--engine", "vllm:0.20.1:v1", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["dialect"] == "vllm:0.20.1:v1"
    assert out["axes"]["taps.layers"]["value"] == [-1, 2, 5]
    assert out["deployment"]["block_drop"] is True
    assert out["refusals"] == []
    assert main(["contract", "tiny/dflash", "--engine", "vllm:0.32.0:v1", "--quiet"]) == 0
    assert "vllm:0.32.0:v1 does not run this pair: Model Runner V1" in capsys.readouterr().out


def test_engine_must_be_one_runner(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "tiny", "--engine", "vllm:0.32"]) == 2
    assert "expected one: vllm:0.32.0:v1 or vllm:0.32.0:v2" in capsys.readouterr().err
