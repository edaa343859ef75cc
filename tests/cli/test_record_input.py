"""Records from JSON lines that nobody vouches for: what `run` wrote is read, the rest refused in one line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from truedraft.cli import main
from truedraft.cli._check_input import records_of
from truedraft.cli._record_input import parse_records
from truedraft.cli._records import write_records
from truedraft.contract import AcceptanceRecord, InputError

RECORD = AcceptanceRecord(
    request_id="r",
    prompt_id="p",
    arm="a",
    proposed=(4, 4, 3),
    accepted=(4, 0, 1),
    prompt_tokens=10,
    output_tokens=8,
    output_hash="0f",
    K=4,
    contract_hash="0123456789abcdef",
    batch_size=1,
    started=1.5,
)


def parsed(data: bytes, name: str) -> tuple[AcceptanceRecord, ...]:
    """The records of a file's content, without the byte order mark that `numbered_lines` takes away."""
    return parse_records(enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1), name)


def line(**changes: Any) -> bytes:
    """A good line with these keys changed; `...` removes a key."""
    fields = {**RECORD.to_json(), **changes}
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


def refusal(data: bytes) -> str:
    """The one line with which `data` is refused."""
    with pytest.raises(InputError) as caught:
        parsed(data, "f.jsonl")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("f.jsonl")
    assert len(str(caught.value)) < 600
    return str(caught.value)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    records = (RECORD, AcceptanceRecord(**{**RECORD.to_json(), "seed": 3, "temperature": 1.0}))
    write_records(tmp_path / "r.jsonl", records)
    assert [r.to_json() for r in records_of(tmp_path / "r.jsonl")] == [r.to_json() for r in records]


def test_defaults_fill_what_a_source_does_not_know() -> None:
    keys = ("boot", "engine", "version", "seed", "schema", "truncated", "cached_tokens", "top_k")
    (record,) = parsed(line(**dict.fromkeys(keys, ...)), "f")
    assert record == RECORD
    assert isinstance(record.proposed, tuple)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + line(),
        b"\n\r\n" + line() + b"\r\n\n",
        line(prompt_id="a\u2028b\x85c"),
        line(started=2, temperature=0),
        line(proposed=[], accepted=[]),
    ],
)
def test_lines_that_are_legal(data: bytes) -> None:
    assert len(parsed(data, "f")) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "found no record, expected one JSON object per line"),
        (b" \n\n", "found no record"),
        (b"nothing", "f.jsonl:1: not JSON"),
        (line() + b"\n{", "f.jsonl:2: not JSON"),
        (line() + line(), "not JSON"),
        (b"[1]", "f.jsonl:1: found a list, expected a JSON object"),
        (b"null", "found null, expected a JSON object"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"K": 1, "K": 2}', "key 'K' appears twice"),
        (b'{"K": NaN}', "found NaN, expected a finite number"),
        (b'{"K": 1e999}', "expected a finite number"),
        (b'{"K": ' + b"9" * 5000 + b"}", "a whole number of 5000 digits"),
        (b"{}", "f.jsonl:1#/request_id: missing, expected a string"),
        (line(proposed=...), "#/proposed: missing, expected a list of whole numbers >= 0"),
        (line(k=4), "#/k: unknown key, expected one of request_id"),
        (line(**{"x" * 1000: 1}), "unknown key"),
        (line(arm=1), "#/arm: found 1, expected a string"),
        (line(arm=None), "#/arm: found None, expected a string"),
        (line(K="4"), "#/K: found '4', expected a whole number >= 0"),
        (line(K=4.0), "#/K: found 4.0, expected a whole number >= 0"),
        (line(K=True), "#/K: found True"),
        (line(K=-1), "#/K: found -1"),
        (line(K=2**53), "#/K: found 9007199254740992"),
        (line(prompt_tokens=-5), "#/prompt_tokens: found -5"),
        (line(cached_tokens=-5), "#/cached_tokens: found -5"),
        (line(seed="1"), "#/seed: found '1', expected a whole number >= 0 or null"),
        (line(temperature="hot"), "#/temperature: found 'hot', expected a number >= 0"),
        (line(temperature=-0.5), "#/temperature: found -0.5"),
        (line(proposed=4), "#/proposed: found 4, expected a list of whole numbers >= 0"),
        (line(proposed="444"), "#/proposed: found '444'"),
        (line(proposed={"0": 4}), "#/proposed: found {'0': 4}"),
        (line(accepted=[4, -1, 1]), "#/accepted/1: found -1, expected a whole number >= 0"),
        (line(accepted=[4, [0], 1]), "#/accepted/1: found [0]"),
        (line(accepted=[4, None, 1]), "#/accepted/1: found None"),
        (line(accepted=[4, 0]), "#/accepted: found 2 rounds, expected 3 as in proposed"),
        (line(accepted=[4, 0, 4]), "#/accepted/2: found 4, expected 0 to 3"),
        (line(nodes=[8, 8]), "#/nodes: found 2 rounds, expected 3 as in proposed, or none"),
        (line(nodes=[8, -8, 8]), "#/nodes/1: found -8"),
        (line(tree_budget=None), "#/tree_budget: found None, expected a whole number >= 0"),
        (line(schema=2), "#/schema: found 2, expected 1"),
        (line(output_hash="a\nb" * 9000, K=None), "#/K: found None"),
        (line(arm=["a\n" * 9000]), "#/arm: found"),
    ],
)
def test_hostile_lines_are_refused_in_one_line(data: bytes, message: str) -> None:
    assert message in refusal(data)


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: None])
def test_what_is_no_file_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "r")
    with pytest.raises(InputError, match="expected a text file"):
        records_of(tmp_path / "r")


def test_check_reads_records_from_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line())))
    assert main(["check", "tiny", "--records", "-", "--select", "TD501", "--quiet"]) == 0
    assert "TD501" in capsys.readouterr().out


def test_check_refuses_a_bad_record_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.jsonl").write_bytes(line() + b"\n" + line(K=-1))
    assert main(["check", "tiny", "--records", str(tmp_path / "r.jsonl")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "r.jsonl:2#/K: found -1" in err


def test_settings_that_a_source_does_not_tell_are_absent() -> None:
    (record,) = parsed(line(), "f")
    assert (record.temperature, record.top_p, record.top_k, record.thinking) == (None, None, None, None)
    assert not {"temperature", "top_p", "top_k", "thinking"} & set(record.to_json())
    (record,) = parsed(line(temperature=0.0, top_p=1.0, top_k=0, thinking=False), "f")
    told = {key: record.to_json()[key] for key in ("temperature", "top_p", "top_k", "thinking")}
    assert told == {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "thinking": False}
    assert "expected true, false or null" in refusal(line(thinking=1))
