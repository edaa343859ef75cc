"""Inputs that once made `check` hang, crash, leave something behind or say the wrong thing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cases_measurement import record
from checkpoints import TARGET, ZLAB, raw, refused_in_one_line, write

from truedraft.cli import main
from truedraft.cli._check_input import prompt_texts, records_of
from truedraft.contract import InputError
from truedraft.formats import _http, inspect
from truedraft.formats._http import Client
from truedraft.formats.engines import find_engines, read_kv_layout


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that treats every connection as told; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65536)
                    answer(connection)
                except OSError:
                    return

        Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_the_body_of_a_redirect_is_not_read() -> None:
    sent = [0]

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 302 x\r\nLocation: /y\r\n\r\n")
        while sent[0] < 64 * 2**20:
            sent[0] += connection.send(b"x" * 65536)

    with serving(answer) as address:
        refused_in_one_line(lambda: Client(address).whole("x", 1000), "status 302")
    assert sent[0] < 64 * 2**20


def test_interim_answers_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http, "HEAD", 0.3)

    def answer(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.01)

    with serving(answer) as address:
        refused_in_one_line(lambda: Client(address).whole("x", 1000), "no answer within")


def test_a_cancelled_job_leaves_nothing_behind(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
        time.sleep(30)

    with serving(answer) as address:
        environment = os.environ | {"HF_ENDPOINT": address, "TMPDIR": str(tmp_path)}
        command = [sys.executable, "-m", "truedraft", "check", "o/t", "o/d", "--network"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
            while not list(tmp_path.iterdir()):
                assert process.poll() is None
                time.sleep(0.02)
            process.terminate()
            assert process.wait(timeout=20) == 143
    assert list(tmp_path.iterdir()) == []


def test_a_layer_number_with_leading_zeros_is_none(tmp_path: Path) -> None:
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    header = {"layers.007.mlp.up_proj.weight": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}
    raw(draft / "model.safetensors", header, 0)
    assert main(["check", str(target), str(draft), "--quiet"]) == 1


def test_many_arms_and_long_lines_of_brackets(tmp_path: Path) -> None:
    rows = [record(i, arm=f"arm{i}", proposed=(4,), accepted=(1,)).to_json() for i in range(5000)]
    file = tmp_path / "records.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["check", "tiny/dflash", "--records", str(file), "--quiet", "--fail-on", "never"]) == 0
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text((json.dumps({"text": "[" + " " * 32700 + "x"}) + "\n") * 20)
    assert main(["check", "tiny/dflash", "--prompts", str(prompts), "--quiet"]) == 0


def test_lack_of_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("truedraft.cli.check.run_checks", fail)
    assert main(["check", "tiny/dflash"]) == 2
    assert capsys.readouterr().err.startswith("truedraft: error: MemoryError: ")


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    from truedraft.formats.tensor_values import floats

    write(tmp_path / "target", TARGET)
    draft = write(tmp_path / "draft", ZLAB, {"fc.weight": (64, 192)})
    reference = inspect(tmp_path / "target", draft).draft.tensors["fc.weight"]
    raw(draft / "model.safetensors", {"zzz": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, 4)
    refused_in_one_line(lambda: list(floats(reference)), "changed while it was read")


def test_links_that_lead_nowhere_are_no_absent_files(tmp_path: Path) -> None:
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    for name in ("tokenizer_config.json", "quant_model_description.json", "hf_quant_config.json"):
        (target / name).symlink_to("nowhere")
        assert main(["check", str(target), str(draft)]) == 2
        (target / name).unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"views": [{"shape": [4, 16, 64], "offset": 0, "stride": 512}]}, "at least a block's 1024 bytes"),
        ({"views": [{"shape": [4, 16, 64], "offset": 0, "stride": 2048}] * 2}, "rows on those of view"),
        ({"views": [{"shape": [4, 16, 64], "offset": 9000, "stride": 2048}]}, "at most 8192 (allocation)"),
        ({"spam": 1}, "unknown key"),
        ({"zero": {"span": 1, "stride": 1, "x": 1}}, "unknown key"),
        ({"allocation": 2**60}, "number of bytes"),
    ],
)
def test_layouts_that_cannot_be(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    layout = {
        "views": [{"shape": [4, 16, 64], "offset": 0, "stride": 2048}],
        "allocation": 8192,
        "zero": {"span": 1024, "stride": 2048},
    }
    (tmp_path / "layout.json").write_text(json.dumps(layout | change))
    refused_in_one_line(lambda: read_kv_layout(tmp_path / "layout.json"), message)


def test_padding_is_nobodys_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = {
        "views": [{"shape": [4, 16, 64], "offset": 0, "stride": 2048}],
        "allocation": 8192,
        "zero": {"span": 2048, "stride": 2048},
    }
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    assert main(["check", "tiny/dflash", "--kv-layout", str(tmp_path / "layout.json")]) == 0
    layout["zero"] = {"span": 2049, "stride": 2048}
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    assert main(["check", "tiny/dflash", "--kv-layout", str(tmp_path / "layout.json")]) == 1
    assert "1 bytes of live rows are cleared" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        '{"text": 5}',
        '{"text": null}',
        '{"text": ""}',
        '{"tokens": "x"}',
        '{"tokens": []}',
        '{"tokens": [-1]}',
    ],
)
def test_prompts_are_checked_as_run_does(tmp_path: Path, line: str) -> None:
    (tmp_path / "p.jsonl").write_text(line)
    with pytest.raises(InputError, match="expected"):
        prompt_texts(tmp_path / "p.jsonl")


def test_records_are_read_line_by_line_within_bounds(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_bytes(b'{"proposed": [' + b"4, " * 600_000 + b"4]}")
    refused_in_one_line(lambda: records_of(file), "expected a shorter line")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vllm:0.26.1", "its neighbours 0.26.0 and 0.28.0"),
        ("vllm:0.31", "its neighbours 0.30.0 and 0.32.0"),
        ("vllm:0.99", "expected one of 0.20.1"),
        ("vllm:0.32:v3", "runners v1, v2"),
        ("sglang:0.5.21", "its neighbours 0.5.19 and 0.5.23"),
    ],
)
def test_unknown_releases_name_their_neighbours(text: str, message: str) -> None:
    refused_in_one_line(lambda: find_engines(text), message)


def test_a_deleted_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["check", str(target), str(draft)]) == 0


def test_json_of_contract_has_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = write(tmp_path / "draft", {**ZLAB, "\u009b31mkey\u202e": 1})
    assert main(["contract", str(write(tmp_path / "target", TARGET)), str(draft), "--json"]) == 0
    out = capsys.readouterr().out
    assert "\u009b" not in out
    assert any("\u009b31mkey\u202e" in key for key in json.loads(out)["unread_keys"])
