"""`truedraft measure`: detection, text and JSON, records, bad input, memory."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from truedraft.cli import main
from truedraft.cli._check_input import records_of
from truedraft.contract import AcceptanceRecord, acceptance

LINE = (
    "(APIServer pid=1) INFO 08-05 12:25:13 [metrics.py:120] SpecDecoding metrics: "
    "Mean acceptance length: 2.93, Accepted throughput: 10.60 tokens/s, Drafted throughput: 38.50 tokens/s, "
    "Accepted: 106 tokens, Drafted: 385 tokens, "
    "Per-position acceptance rate: 0.691, 0.418, 0.382, 0.182, 0.127, 0.073, 0.055, "
    "Avg Draft acceptance rate: 27.5%\n"
)
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


def written(tmp_path: Path, text: str | bytes, name: str = "f.log") -> str:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def measured(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["measure", *argv, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_json_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(capsys, written(tmp_path, LINE))
    assert found["schema"] == 1
    assert set(found["acceptance"]) >= {"tau", "definition", "rounds", "survival", "conditional"}
    assert found["acceptance"]["rounds"] == 55
    assert found["records"] == 1
    assert found["warnings"] == []


def test_text_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", written(tmp_path, LINE + LINE[:200])]) == 0
    out = capsys.readouterr().out
    assert "tau 2.927 over 55 rounds" in out
    assert "bonus token included" in out
    assert "warning" in out


def test_records_are_written_where_there_are_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.jsonl"
    found = measured(capsys, written(tmp_path, LINE), "-o", str(out))
    (record,) = records_of(out)
    assert acceptance([record]).tau == found["acceptance"]["tau"]
    again = measured(capsys, str(out))
    assert again["acceptance"]["tau"] == found["acceptance"]["tau"]
    length = "sglang:spec_accept_length 1.55\n"
    none = measured(capsys, written(tmp_path, length), "-o", str(out))
    assert none["records"] == 0
    assert "records for 0 of 1 statements" in none["warnings"][-1]
    assert out.read_bytes() == b""


def test_our_own_records_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps(RECORD.to_json())
    expected = acceptance([RECORD]).to_json()
    found = measured(capsys, written(tmp_path, line + "\n" + line[:50] + "\n"))
    assert {key: found["acceptance"][key] for key in ("tau", "definition", "conditional")} == {
        key: expected[key] for key in ("tau", "definition", "conditional")
    }
    assert ":2" in found["warnings"][0]
    report = {"schema": 1, "acceptance": expected, "records": [RECORD.to_json()]}
    assert measured(capsys, written(tmp_path, json.dumps(report)))["acceptance"] == found["acceptance"]
    bare = measured(capsys, written(tmp_path, json.dumps({**report, "records": []})))
    assert bare["acceptance"]["tau"] == expected["tau"]
    assert bare["records"] == 0


def test_a_bad_record_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {**RECORD.to_json(), "accepted": [4, 0, 4]}
    text = "\n".join(map(json.dumps, (RECORD.to_json(), bad)))
    found = measured(capsys, written(tmp_path, text))
    assert found["acceptance"]["rounds"] == 3
    assert ":2#/accepted/2: found 4, expected 0 to 3" in found["warnings"][0]


def test_stdin_before_and_k(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LINE.encode())))
    assert measured(capsys, "-")["acceptance"]["rounds"] == 55
    names = ("drafts", "draft_tokens", "accepted_tokens")

    def scrape(*counts: int) -> str:
        return "".join(f"vllm:spec_decode_num_{n}_total {c}.0\n" for n, c in zip(names, counts, strict=True))

    before = written(tmp_path, scrape(10, 30, 5), "before")
    after = written(tmp_path, scrape(30, 90, 15), "after")
    found = measured(capsys, after, "--before", before)
    assert (found["acceptance"]["rounds"], found["acceptance"]["tau"]) == (20, 1.5)
    assert main(["measure", written(tmp_path, LINE), "--before", before]) == 2
    assert "found no counters" in capsys.readouterr().err
    bench = "Acceptance rate (%):                     1.10\nAcceptance length:                       1.18\n"
    found = measured(capsys, written(tmp_path, bench), "--k", "15")
    assert "implies about 16 proposed drafts per round" in found["warnings"][0]
    assert found["contradictory"][0]["stated"][0]["value"] == 1.18


def test_source_forces_a_reader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = written(tmp_path, LINE + "sglang:spec_accept_length 1.55\n")
    assert measured(capsys, both, "--source", "sglang-gauges")["acceptance"]["tau"] == 1.55
    assert measured(capsys, both, "--source", "vllm-log")["acceptance"]["rounds"] == 55
    with_both = measured(capsys, both)
    assert with_both["acceptance"]["tau"] is None
    assert "not added up" in " ".join(with_both["warnings"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found none, expected acceptance figures"),
        ("nothing here\n", "found none, expected acceptance figures"),
        (b"\xff\xfe\x00", "found none"),
        ("{", "f.log:1: not JSON"),
        ("[1]", "found none"),
        ('{"a": 1}', "found none"),
        ("{" * 100_000, "expected a"),
        ("[{" * 100_000, "expected a"),
        ('{"a": ' + "9" * 6000 + "}", "expected a"),
        (LINE[:75], "found nothing usable"),
        ("data: [DONE]\n\n", "expected"),
    ],
)
def test_bad_input_is_one_line(
    text: str | bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, text)
    assert main(["measure", path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert path in err
    assert len(err.strip().split("\n")) == 1
    assert len(err) < 800


def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, LINE)
    for argv in (
        [],
        [str(tmp_path)],
        [str(tmp_path / "none")],
        [path, "--source", "nothing"],
        [path, path, "--before", path],
        [path, "--before", path],
        [path, "-o", path],
        [path, "-o", str(tmp_path / "no" / "where")],
        ["http://127.0.0.1:9/metrics"],
    ):
        assert main(["measure", *argv]) == 2, argv
        assert len(capsys.readouterr().err.strip().split("\n")) == 1


def test_long_lines_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(capsys, written(tmp_path, "x" * 3_000_000 + "\n" + LINE + "y" * 2_000_000))
    assert found["acceptance"]["rounds"] == 55
    assert any("not read" in warning for warning in found["warnings"])


def test_json_has_a_largest_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truedraft.measure.sources.read.MOST_JSON", 100)
    assert main(["measure", written(tmp_path, json.dumps(RECORD.to_json()))]) == 2
    assert "found more than 100 bytes of JSON" in capsys.readouterr().err


def test_needs_no_torch_numpy_or_rich() -> None:
    code = (
        "import sys, truedraft.cli.measure, truedraft.cli._measure_input, truedraft.cli._measure_text\n"
        "import truedraft.measure.server, truedraft.measure.sources\n"
        "print({'torch', 'numpy', 'rich', 'transformers'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_a_million_rounds_fit_into_memory(tmp_path: Path) -> None:
    line = json.dumps({**RECORD.to_json(), "proposed": [7] * 10_000, "accepted": [3] * 10_000, "K": 7})
    path = written(tmp_path, (line + "\n") * 100, "r.jsonl")
    code = (
        "import re, sys\n"
        "from truedraft.cli import main\n"
        f"code = main(['measure', {path!r}, '--json', '-o', {str(tmp_path / 'out.jsonl')!r}])\n"
        # ru_maxrss would count the process that started this one
        "peak = int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "print(peak // 1024, file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["acceptance"]["rounds"] == 1_000_000
    assert int(done.stderr) < 500
