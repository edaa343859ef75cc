"""Live measurement against a local fake server."""

from __future__ import annotations

import _thread
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_server import Fake, serving

from truedraft.cli import main
from truedraft.cli._check_input import records_of

Served = tuple[str, Fake]


@pytest.fixture(name="served")
def _served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("truedraft.measure.server.run.SETTLE", 0.01)
    with serving() as found:
        yield found


@pytest.fixture(name="prompts")
def _prompts(tmp_path: Path) -> Path:
    path = tmp_path / "p.jsonl"
    rows = [{"id": f"p{i}", "text": "x" * (i + 1), "category": "even" if i % 2 else "odd"} for i in range(6)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def measured(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    assert main(["measure", *map(str, argv), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_per_request_counts_and_counters(
    served: Served, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, fake = served
    out = tmp_path / "r.jsonl"
    found = measured(
        capsys, "--server", url, "--prompts", prompts, "--concurrency", 3, "--seed", 5, "-o", out
    )
    accepted = sum((i + 1) % 4 + 3 + 2 + 1 for i in range(6))
    assert found["acceptance"]["rounds"] == 24
    assert found["acceptance"]["tau"] == pytest.approx(1 + accepted / 24)
    scopes = {group["scope"]: group["acceptance"] for group in found["groups"]}
    assert scopes["difference"]["rounds"] == 24  # not the 100 rounds from before
    assert scopes["difference"]["tau"] == scopes["request"]["tau"]
    assert found["records"] == 6
    assert fake.most_open <= 3
    body = fake.bodies[0]
    assert body["stream_options"] == {"include_usage": True}
    assert (body["model"], body["temperature"], body["seed"], body["max_tokens"]) == ("m", 0.0, 5, 256)
    assert "chat_template_kwargs" not in body
    assert "cache_salt" not in body
    records = records_of(out)
    assert [record.prompt_id for record in records] == [f"p{i}" for i in range(6)]
    assert {record.category for record in records} == {"odd", "even"}
    assert {record.output_hash[:5] for record in records} == {"text:"}
    assert {(record.batch_size, record.seed, record.prompt_tokens) for record in records} == {(3, 5, 7)}
    assert "traffic" not in " ".join(found["warnings"])


def test_cold_against_warm(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url, _ = served
    out = tmp_path / "r.jsonl"
    found = measured(
        capsys, "--server", url, "--prompts", prompts, "--repeat-prefix", "--no-thinking", "-o", out
    )
    cold, warm = found["server"]["passes"]
    assert (cold["cached_tokens"], warm["cached_tokens"]) == (0, 36)
    assert cold["acceptance"]["tau"] - warm["acceptance"]["tau"] == pytest.approx(2 * 6 / 24)
    assert found["acceptance"] == cold["acceptance"]
    assert found["server"]["thinking"] is False
    assert [record.arm for record in records_of(out)] == ["cold"] * 6 + ["warm"] * 6
    again = measured(capsys, "--server", url, "--prompts", prompts, "--repeat-prefix")
    assert "the pass is not cold" in " ".join(again["warnings"])


def test_cold_against_warm_prompt_by_prompt(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url, fake = served
    found = measured(capsys, "--server", url, "--prompts", prompts, "--repeat-prefix")
    repeats = found["server"]["repeats"]
    assert repeats["tau"]["difference"] == pytest.approx(-0.5)
    assert repeats["tau"]["sd"] == pytest.approx(0)
    assert repeats["cached_tokens"]["difference"] == 6
    assert repeats["seconds"]["prompts"] == 6
    assert repeats["text_identical"] == 1.0
    assert "texts differ" not in " ".join(found["warnings"])
    assert [pair["prompt_id"] for pair in repeats["prompts"]] == [f"p{i}" for i in range(6)]
    first = repeats["prompts"][0]
    assert first["warm"]["tau"] - first["cold"]["tau"] == pytest.approx(-0.5)
    fake.seen.clear()
    fake.drifts, fake.per_request = True, False
    found = measured(capsys, "--server", url, "--prompts", prompts, "--repeat-prefix")
    assert found["server"]["repeats"]["tau"] is None
    assert found["server"]["repeats"]["text_identical"] == 0.0
    assert "6 of 6 texts differ from those of the cold pass at temperature 0" in " ".join(found["warnings"])
    fake.seen.clear()
    warm = measured(capsys, "--server", url, "--prompts", prompts, "--repeat-prefix", "--temperature", "1")
    assert "texts differ" not in " ".join(warm["warnings"])
    fake.seen.clear()
    fake.faults = {"x": "cut"}
    assert main(["measure", "--server", url, "--prompts", str(prompts), "--repeat-prefix"]) == 0
    out = capsys.readouterr().out
    assert "tau: no prompt has it in both passes" in out
    assert "same text: 0 of 5" in out


def test_records_tell_the_settings_that_are_known(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "r.jsonl"
    options = ["--temperature", "0.7", "--no-thinking", "-o", out]
    measured(capsys, "--server", served[0], "--prompts", prompts, *options)
    line = json.loads(out.read_text().split("\n")[0])
    assert (line["temperature"], line["thinking"]) == (0.7, False)
    assert not {"top_p", "top_k"} & set(line)
    (record, *_) = records_of(out)
    assert (record.temperature, record.top_p, record.top_k, record.thinking) == (0.7, None, None, False)


def test_thinking_salt_key_and_completions(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, fake = served
    monkeypatch.setenv("MY_KEY", "secret")
    options = ["--thinking", "--cache-salt", "--api-key-env", "MY_KEY", "--api", "completions"]
    measured(capsys, "--server", url + "/v1", "--prompts", prompts, *options)
    assert fake.bodies[0]["chat_template_kwargs"] == {"enable_thinking": True}
    assert len({body["cache_salt"] for body in fake.bodies}) == 1
    assert fake.bodies[0]["prompt"].startswith("x")
    assert fake.headers[0]["Authorization"] == "Bearer secret"


def test_counters_alone_and_other_peoples_requests(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, fake = served
    fake.per_request, fake.other_traffic = False, 50
    found = measured(capsys, "--server", url, "--prompts", prompts)
    assert found["acceptance"]["rounds"] == 24
    assert found["groups"][0]["scope"] == "difference"
    assert "generated 300 tokens more than were asked for here" in " ".join(found["warnings"])


def test_without_any_figures_there_is_no_tau(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, fake = served
    fake.per_request = fake.metrics = False
    found = measured(capsys, "--server", url, "--prompts", prompts)
    assert found["acceptance"]["tau"] is None
    assert "no counters" in " ".join(found["warnings"])
    assert main(["measure", "--server", url, "--prompts", str(prompts)]) == 0
    assert "no counters" in capsys.readouterr().out


@pytest.mark.parametrize(
    "fault", ["status", "cut", "garbage", "error", "redirect", "empty", "deep", "long", "object"]
)
def test_failed_requests_are_said_and_left_out(
    fault: str, served: Served, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, fake = served
    fake.faults = {"x": fault}
    found = measured(capsys, "--server", url, "--prompts", prompts)
    assert found["server"]["passes"][0]["failed"] == 1
    assert found["records"] == 5
    assert "p0: no whole answer" in found["warnings"][0]


def refusal(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    assert main(["measure", *map(str, argv)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().split("\n")) == 1
    return err


def test_refusals(served: Served, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, fake = served
    tokens = tmp_path / "t.jsonl"
    tokens.write_text('{"tokens": [1, 2]}')
    fake.faults = dict.fromkeys(("x" * n for n in range(1, 7)), "status")
    assert "no request was answered (status 500" in refusal(capsys, "--server", url, "--prompts", prompts)
    assert "expected a prompt file" in refusal(capsys, "--server", url)
    assert "expected the server" in refusal(capsys, "--prompts", prompts)
    assert "one or the other" in refusal(capsys, "f", "--server", url, "--prompts", prompts)
    assert "--api completions" in refusal(capsys, "--server", url, "--prompts", tokens)
    assert "is not set" in refusal(
        capsys, "--server", url, "--prompts", prompts, "--api-key-env", "NONE_SUCH"
    )
    assert "cannot be fetched" in refusal(capsys, "--server", "http://127.0.0.1:9", "--prompts", prompts)
    for address in (
        "localhost",
        "ftp://a",
        "http://user:secret@host",
        "http://a b",
        "http://[",
        "http://h:99999",
    ):
        message = refusal(capsys, "--server", address, "--prompts", prompts)
        assert "expected http://HOST" in message
        assert "secret" not in message


def test_an_answer_that_hangs_ends_in_time(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, fake = served
    fake.slow = 3.0
    message = refusal(capsys, "--server", url, "--prompts", prompts, "--timeout", 1, "--concurrency", 6)
    assert "timed out" in message


def test_an_answer_that_drips_ends_in_time(
    served: Served, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, fake = served
    fake.faults = dict.fromkeys(("x" * n for n in range(1, 7)), "drip")
    begin = time.monotonic()
    message = refusal(capsys, "--server", url, "--prompts", prompts, "--timeout", 1, "--concurrency", 6)
    assert "timed out after 1 s" in message
    assert time.monotonic() - begin < 10


def test_ctrl_c_ends_at_once(served: Served, prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, fake = served
    fake.slow = 5.0

    def interrupt() -> None:
        while not fake.bodies:  # the first prompt has been sent, its answer takes 5 seconds
            time.sleep(0.02)
        time.sleep(0.2)
        _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        assert main(["measure", "--server", url, "--prompts", str(prompts)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "truedraft: error: interrupted\n"


def test_metrics_by_address_need_the_flag(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    url, _ = served
    assert "expected --network" in refusal(capsys, url + "/metrics")
    assert measured(capsys, url + "/metrics", "--network")["acceptance"]["rounds"] == 100
    assert "found status 404" in refusal(capsys, url + "/nothing", "--network")
