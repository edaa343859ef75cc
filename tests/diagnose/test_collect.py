"""`truedraft collect`: the file works as its inputs do, holds nothing private, is whole or not there."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checkpoints import GOLDENS
from hub_server import COMMIT, Hub, serving

from truedraft.cli import _collect_file, _collect_pair, main
from truedraft.contract import AcceptanceRecord
from truedraft.diagnose.redact import Identity
from truedraft.formats import evaluation_prompts, find_tensors, locate, resolve

PAIR = ("--target", "tiny", "--draft", "tiny/dflash")
ENGINE = ("--engine", "vllm:0.20.1:v1")
LOW = (
    "(APIServer pid=1) INFO 05-06 06:11:23 [metrics.py:101] SpecDecoding metrics: "
    "Mean acceptance length: 1.03, Accepted throughput: 2.50 tokens/s, "
    "Drafted throughput: 365.14 tokens/s, Accepted: 25 tokens, "
    "Drafted: 3652 tokens, Per-position acceptance rate: 0.027, 0.000, 0.000, 0.000, "
    "Avg Draft acceptance rate: 0.7%"
)
FAIR = (
    "(APIServer pid=1) INFO 08-05 12:25:13 [metrics.py:120] SpecDecoding metrics: "
    "Mean acceptance length: 2.93, Accepted throughput: 10.60 tokens/s, "
    "Drafted throughput: 38.50 tokens/s, Accepted: 106 tokens, "
    "Drafted: 385 tokens, Per-position acceptance rate: 0.691, 0.418, 0.382, 0.182, 0.127, 0.073, 0.055, "
    "Avg Draft acceptance rate: 27.5%"
)
RANKS = (
    "(Worker_TP0 pid=11) INFO 07-27 22:00:12 [llm_base_proposer.py:1468] Detected EAGLE model with distinct "
    "embed_tokens weights. Keeping separate embedding weights from the target model.\n"
    "(Worker_TP1 pid=12) INFO 07-27 22:00:12 [llm_base_proposer.py:1462] Detected EAGLE model with "
    "embed_tokens identical to the target model. Sharing target model embedding weights with the draft "
    "model."
)
BOOT = (
    "(EngineCore pid=9) INFO 08-05 12:00:21 [gpu_model_runner.py:101] Using auxiliary layers from "
    "speculative config: (1, 4, 7)"
)
HITS = "INFO 05-06 06:11:33 [loggers.py:1] Engine 000: Running: 3 reqs, Prefix cache hit rate: 27.4%"

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def collect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `collect` and returns the object in the file."""

    def run(*argv: str) -> dict[str, Any]:
        assert main(["collect", *argv, "-o", str(tmp_path / "report.json")]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert "wrote" in out
        found: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
        return found

    return run


def log(tmp_path: Path, *lines: str, name: str = "server.log") -> str:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Records of the bundled pair, made by our own decoder."""
    folder = tmp_path_factory.mktemp("records")
    with (folder / "p.jsonl").open("w") as file:
        for prompt in evaluation_prompts("tiny")[0][:5]:
            file.write(json.dumps(prompt) + "\n")
    argv = ["--prompt-file", str(folder / "p.jsonl"), "--max-new-tokens", "48", "--quiet"]
    assert main(["run", "tiny/dflash", *argv, "--records", str(folder / "r.jsonl")]) == 0
    return str(folder / "r.jsonl")


def copy(tmp_path: Path, name: str) -> str:
    """The same figures in another file: one file cannot stand for two runs."""
    return shutil.copy(name, tmp_path / f"other-{Path(name).name}")


def prompt_file(tmp_path: Path, *texts: str) -> str:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(path)


def diagnosed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["diagnose", *argv, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    for item in found["observations"]:
        item.pop("where")
    found.pop("warnings")
    return code, found


def round_trip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *argv: str, later: tuple[str, ...] = ()
) -> dict[str, Any]:
    report = str(tmp_path / "report.json")
    expected = diagnosed(capsys, *argv, *later)
    assert main(["collect", *argv, "-o", report]) == 0
    assert diagnosed(capsys, report, *later) == expected
    return expected[1]


def test_diagnose_on_the_file_says_what_it_says_on_the_inputs(
    records: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low = log(tmp_path, BOOT, RANKS, LOW, LOW, HITS)
    fair = log(tmp_path, FAIR, FAIR, name="fair.log")
    round_trip(tmp_path, capsys, low)
    round_trip(tmp_path, capsys, fair, "--log", low, "--fact", "tp=one-good")
    round_trip(tmp_path, capsys, records)
    round_trip(tmp_path, capsys, records, *PAIR, *ENGINE)
    round_trip(tmp_path, capsys, low, *PAIR, *ENGINE, "--log", low, "--reference", records, "--no-thinking")
    found = round_trip(tmp_path, capsys, low, *PAIR, *ENGINE, "--log", low, later=("--expect", "6.7"))
    assert found["causes"][0]["causes"][0]["name"] == "taps"
    round_trip(tmp_path, capsys, *PAIR)
    round_trip(tmp_path, capsys, "--fact", "copy=differs", later=("--fact", "text=equal"))


def test_a_log_full_of_private_things_gives_the_same_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = "ValueError: mat1 and mat2 shapes cannot be multiplied at /home/bertil/x.py on host='node9' "
    long = f"{noisy} {'word ' * 100} api_key=hunter2 {'word ' * 100}"
    server, report = log(tmp_path, RANKS, noisy, long, LOW), str(tmp_path / "report.json")
    assert main(["collect", server, "-o", report]) == 0
    (code, one), (same, other) = diagnosed(capsys, server), diagnosed(capsys, report)
    assert (same, other["verdict"]) == (code, one["verdict"])
    shares = [[[(c["name"], c["share"]) for c in g["causes"]] for g in d["causes"]] for d in (one, other)]
    assert shares[0] == shares[1]
    text = (tmp_path / "report.json").read_text()
    assert not [word for word in ("bertil", "node9", "hunter2") if word in text]


def test_what_the_file_holds(records: str, tmp_path: Path, collect: Run) -> None:
    boot = log(tmp_path, BOOT, BOOT.replace("12:00:21", "12:10:00"), RANKS, FAIR, HITS)
    prompts = prompt_file(tmp_path, "one", "two", "two")
    other, off = copy(tmp_path, records), copy(tmp_path, boot)
    arms = ("--arm", f"eager={other}", "--arm", f"cache off={off}")
    found = collect(records, boot, *PAIR, *ENGINE, "--log", boot, "--prompts", prompts, *arms, "--k", "7")
    drafter = locate("tiny/dflash")[1]
    assert drafter is not None
    assert list(found)[:4] == ["schema", "kind", "truedraft", "missing"]
    assert (found["schema"], found["kind"]) == (1, "truedraft collect")
    assert found["target"]["config"]["model_type"] == "qwen3"
    draft = found["draft"]
    assert draft["config"] == json.loads((drafter / "config.json").read_text())
    assert (
        draft["config_file"]["sha256"] == hashlib.sha256((drafter / "config.json").read_bytes()).hexdigest()
    )
    weights = drafter / "model.safetensors"
    assert draft["weights"] == [
        {
            "file": weights.name,
            "bytes": weights.stat().st_size,
            "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        }
    ]
    shapes = {name: list(ref.shape) for name, ref in find_tensors(drafter).items()}
    assert {entry["name"]: entry["shape"] for entry in draft["tensors"]} == shapes
    assert found["contract"] == resolve("tiny/dflash").contract.to_json()
    assert found["readings"][0]["engine"] == "vllm:0.20.1:v1"
    taps = next(entry for entry in found["readings"][0]["differences"] if entry["axis"] == "taps.layers")
    assert (taps["contract"], taps["engine"]) == ([0, 3, 6], [-1, 2, 5])
    assert len(found["figures"]["sources"]) == 2
    assert len(found["figures"]["sources"][0]["acceptance"]["survival"]) == 7
    assert list(found["arms"]) == ["eager", "cache off"]
    assert found["cached"]["records"]["share"] == 0
    assert found["cached"]["printed"][0]["prefix_cache_hit_rate"] == 0.274
    assert [entry["kind"] for entry in found["log_lines"]] == ["layer ids", "tables-differ", "tables-differ"]
    assert found["prompts"]["repeated_share"] == pytest.approx(1 / 3)
    assert found["prompts"]["sha256"][0] == hashlib.sha256(b"one").hexdigest()
    assert found["prompts"]["tokens"]["100%"] >= 1
    assert "texts" not in found["prompts"]
    assert found["environment"]["packages"]["truedraft"] == found["truedraft"]
    assert "--thinking" in found["missing"][0]
    assert len(found["missing"]) == 2  # and k = 1


def test_nothing_is_missing_from_a_complete_file(records: str, tmp_path: Path, collect: Run) -> None:
    one = tmp_path / "k1.jsonl"
    record = AcceptanceRecord("r", "p", "a", (1, 1), (1, 0), 10, 8, "", 1, "", 1, 1.5)
    one.write_text(json.dumps(record.to_json()) + "\n")
    boot = log(tmp_path, BOOT)
    arms = ("--arm", f"k1={one}", "--arm", f"eager={copy(tmp_path, records)}")
    given = ("--log", boot, "--prompts", prompt_file(tmp_path, "one"), "--thinking", *arms)
    assert collect(records, *PAIR, *ENGINE, *given)["missing"] == []


def test_every_subset_of_the_inputs_will_do(records: str, tmp_path: Path, collect: Run) -> None:
    assert len(collect(*ENGINE)["missing"]) == 7
    assert collect("--prompts", prompt_file(tmp_path, "one"))["prompts"]["count"] == 1
    assert collect("--arm", f"eager={records}")["arms"]["eager"]["K"] == [7]
    assert collect("--log", log(tmp_path, BOOT))["log_lines"][0]["where"] == "server.log:1"
    assert collect("--fact", "tp=one-good")["case"]["facts"] == ["tp=one-good"]
    assert collect(*PAIR, "--no-hash")["draft"]["weights"][0].get("sha256") is None


def test_cached_tokens_of_records(tmp_path: Path, collect: Run) -> None:
    cold = AcceptanceRecord("r", "p", "a", (4, 4), (4, 3), 100, 8, "", 4, "", 1, 1.5)
    warm = replace(cold, accepted=(0, 1), cached_tokens=80)
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(record.to_json()) + "\n" for record in (cold, warm)))
    found = collect(str(path))["cached"]["records"]
    assert (found["share"], found["requests_with_cached_tokens"]) == (0.4, 1)
    assert (found["without_cached"]["tau"], found["with_cached"]["tau"]) == (4.5, 1.5)


def test_prompts_come_along_only_if_asked_for(tmp_path: Path, collect: Run) -> None:
    prompts = prompt_file(tmp_path, "a very private question of bertil@example.org", "another")
    collect(*PAIR, "--prompts", prompts)
    assert "private question" not in (tmp_path / "report.json").read_text()
    same = prompt_file(tmp_path, *["a very private question: 'what'"] * 12)
    request = "INFO Received request cmpl-1: prompt: 'a very private question on dflash', params: x"
    found = collect(
        log(tmp_path, request, LOW), *PAIR, "--prompts", same, "--log", log(tmp_path, request, LOW)
    )
    assert "TD502" in [finding["code"] for finding in found["case"]["findings"]]
    assert "private question" not in (tmp_path / "report.json").read_text()
    prompts = prompt_file(tmp_path, "a very private question of bertil@example.org", "another")
    found = collect(*PAIR, "--prompts", prompts, "--with-prompts")
    assert found["prompts"]["texts"] == ["a very private question of <email-1>", "another"]
    assert found["template"] is None


def test_the_first_prompt_in_its_template(tmp_path: Path, collect: Run) -> None:
    target, _ = locate("tiny")
    assert target is not None
    shutil.copytree(target, tmp_path / "t")
    template = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{{ enable_thinking }}"
    (tmp_path / "t" / "chat_template.jinja").write_text(template)
    prompts = prompt_file(tmp_path, "hello")
    argv = ("--target", str(tmp_path / "t"), "--draft", "tiny/dflash", "--no-thinking", "--prompts", prompts)
    found = collect(*argv)["template"]
    assert found["sha256"] == hashlib.sha256(template.encode()).hexdigest()
    assert found["thinking_switch"]
    assert "rendered" not in found
    assert collect(*argv, "--with-prompts")["template"]["rendered"] == "[user:hello]False"


def copied(folder: Path) -> Path:
    drafter = locate("tiny/dflash")[1]
    assert drafter is not None
    shutil.copytree(drafter, folder)
    return folder


def test_revisions(tmp_path: Path, collect: Run) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = copied(tmp_path / "models--org--drafter" / "snapshots" / commit)
    found = collect("--target", "tiny", "--draft", str(cached))["draft"]["revision"]
    assert found == {"repository": "org/drafter", "revision": commit, "from": "snapshot in a cache"}
    cloned = copied(tmp_path / "clone")
    (cloned / ".git" / "refs" / "heads").mkdir(parents=True)
    (cloned / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert collect("--target", "tiny", "--draft", str(cloned))["draft"]["revision"] is None
    (cloned / ".git" / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/main\n")
    assert collect("--target", "tiny", "--draft", str(cloned))["draft"]["revision"]["revision"] == commit
    (cloned / ".git" / "refs" / "heads" / "main").write_text(commit[::-1])
    found = collect("--target", "tiny", "--draft", str(cloned))["draft"]["revision"]
    assert found == {"revision": commit[::-1], "from": ".git"}
    downloaded = copied(tmp_path / "download")
    (downloaded / ".cache" / "huggingface" / "download").mkdir(parents=True)
    metadata = downloaded / ".cache" / "huggingface" / "download" / "config.json.metadata"
    metadata.write_text(f"{commit}\netag\n1.0\n")
    assert collect("--target", "tiny", "--draft", str(downloaded))["draft"]["revision"]["revision"] == commit
    metadata.unlink()
    metadata.symlink_to("/etc/hostname")  # leads out: tells nothing
    assert collect("--target", "tiny", "--draft", str(downloaded))["draft"]["revision"] is None


def test_a_pair_on_a_hub(tmp_path: Path, collect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    pair = GOLDENS / "dflash_zlab_swa_causal"
    with serving(Hub()) as hub:
        for role in ("target", "draft"):
            files = {p.name: p.read_bytes() for p in (pair / role).iterdir() if p.is_file()}
            hub.add(f"org/{role}", files)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        found = collect("--target", "org/target", "--draft", "org/draft", "--network")
    assert found["draft"]["name"] == "org/draft"
    assert found["draft"]["revision"] == {"repository": "org/draft", "revision": COMMIT, "from": "hub"}
    assert "sha256" not in found["draft"]["weights"][0]  # only headers were fetched
    assert found["draft"]["tensors"]
    assert str(tmp_path) not in json.dumps(found)


def test_nothing_private_gets_into_the_file(
    tmp_path: Path, collect: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "annika"
    drafter = copied(home / "checkpoints" / "my-drafter")
    config = json.loads((drafter / "config.json").read_text())
    config |= {"_name_or_path": str(drafter), "hf_token": "abc", "note": "by Annika on gpu-box7"}
    (drafter / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", "annika")
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-box7.corp.example")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x1" * 17)
    key = "sk-1234567890abcdef1234"
    args = f"{{'model': '{drafter}', 'host': 'node9', 'api_key': ['{key}'], 'speculative_config': {{}}}}"
    server = log(
        home,
        f"INFO 08-05 12:00:01 [utils.py:233] non-default args: {args}",
        "INFO 08-05 12:00:02 [utils.py:1] speculative_config at http://bob:pw@10.1.2.3:8000/v1 by annika",
        BOOT,
        LOW,
        name="annika's run.log",
    )
    prompts = prompt_file(home, f"my token is {key}", "mail annika@corp.example")
    other = copy(home, server)
    found = collect(
        server, "--target", "tiny", "--draft", str(drafter), *ENGINE, "--log", server, "--prompts", prompts,
        "--with-prompts", "--arm", f"eager={other}", "--reference", other,
    )  # fmt: skip
    text = (tmp_path / "report.json").read_text()
    private = ("annika", "Annika", "gpu-box7", "node9", key, "bob", "10.1.2.3", "pw@", "checkpoints", '"abc"')
    assert not [word for word in (*private, str(tmp_path), "corp") if word in text]
    assert "my-drafter" in found["draft"]["name"]
    assert "8000/v1" in text
    assert "(1, 4, 7)" in text
    assert found["redacted"]["secret"] >= 3
    assert found["case"]["measured"]["survival"] == [0.027, 0, 0, 0]


def test_json_goes_to_stdout_too(records: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", records, "-o", str(tmp_path / "x.json"), "--json"]) == 0
    assert capsys.readouterr().out == (tmp_path / "x.json").read_text()


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(["collect", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("truedraft: error: ")
    assert err.count("\n") == 1
    return err


BAD = {
    "nothing": ([], "found nothing to go by"),
    "prompts": (["FILE", "--with-prompts"], "without --prompts"),
    "arm": (["FILE", "--arm", "eager"], "expected NAME=FILE"),
    "arm twice": (["FILE", "--arm", "a=FILE", "--arm", "a=FILE"], "twice"),
    "arm file": (["FILE", "--arm", "a=absent"], "absent: No such file"),
    "arm figures": (["FILE", "--arm", "a=OTHER"], "expected acceptance figures"),
    "stdin": (["FILE", "--log", "-"], "expected a file"),
    "source": (["absent.log"], "absent.log: No such file"),
    "address": (["http://host/metrics"], "expected --network"),
    "draft": (["FILE", "--draft", "tiny/dflash"], "without --target"),
    "target": (["--target", "no/such"], "no such directory"),
    "engine": (["FILE", "--engine", "nope:1"], "nope"),
    "fact": (["--fact", "x=y"], "--fact x=y"),
    "set": (["FILE", "--set", "a=b"], "without --target"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_writes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv, expected = BAD[name]
    names = {"FILE": log(tmp_path, LOW), "OTHER": log(tmp_path, "nothing", name="other")}
    for short, path in names.items():
        argv = [text.replace(short, path) for text in argv]
    folder = tmp_path / "out"
    folder.mkdir()
    assert expected in refused(capsys, *argv, "-o", str(folder / "r.json"))
    assert list(folder.iterdir()) == []


def test_places_that_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server, drafter = log(tmp_path, LOW), copied(tmp_path / "d")
    (tmp_path / "link").symlink_to(server)
    (tmp_path / "hard").hardlink_to(server)
    pair = ("--target", "tiny", "--draft", str(drafter))
    for place in (server, str(tmp_path / "link"), str(tmp_path / "hard"), str(drafter / "config.json")):
        before = Path(place).read_bytes()
        assert "expected another file" in refused(capsys, server, *pair, "-o", place)
        assert Path(place).read_bytes() == before
    for option in ("--prompts", "--log", "--reference", "--probe"):
        assert "expected another file" in refused(capsys, *pair, option, server, "-o", server)
    assert "expected another file" in refused(capsys, "--arm", f"a={server}", "-o", server)
    assert "existing directory" in refused(capsys, server, "-o", str(tmp_path / "no" / "r.json"))
    assert "regular file" in refused(capsys, server, "-o", str(tmp_path))
    assert "--json" in refused(capsys, server, "-o", "-")
    assert "Missing option" in refused(capsys, server)
    report = str(tmp_path / "report.json")
    assert main(["collect", server, "-o", report]) == 0
    assert "what it was made of" in refused(capsys, report, "-o", str(tmp_path / "again.json"))
    assert main(["collect", server, "-o", report]) == 0  # its own file may be replaced


def test_what_slips_through_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, report = log(tmp_path, LOW), tmp_path / "report.json"
    report.write_text("old")
    monkeypatch.setattr(_collect_file, "leaks", lambda value, identity: ["/case/lines/0"])
    assert "private left at #/case/lines/0" in refused(capsys, server, "-o", str(report))
    assert report.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "server.log"]


def test_the_last_look_does_not_trust_the_redaction(tmp_path: Path) -> None:
    who = Identity(users=frozenset({"annika"}), homes=frozenset({"/home/annika"}))
    for text in ("by annika", "/home/annika", "10.1.2.3", "hf_" + "a1" * 12, "x@mail.example.org"):
        with pytest.raises(Exception, match="private"):
            _collect_file.checked_text({"case": {}, "x": [text]}, who, tmp_path / "r.json")


def test_an_interrupt_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    report = tmp_path / "report.json"
    monkeypatch.setattr(_collect_pair, "digest", interrupted)
    assert main(["collect", *PAIR, "-o", str(report)]) == 130
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr(Path, "replace", interrupted)
    assert main(["collect", *PAIR, "-o", str(report)]) == 130
    assert list(tmp_path.iterdir()) == []


def test_hostile_files(tmp_path: Path, collect: Run, capsys: pytest.CaptureFixture[str]) -> None:
    drafter = copied(tmp_path / "d")
    config = json.loads((drafter / "config.json").read_text())
    config |= {"\x1b[31m": "\u202e\ud800 \x07", "deep": [[[["x" * 5000]]]], "__proto__": {"a": None}}
    (drafter / "config.json").write_text(json.dumps(config))
    nasty = tmp_path / "nasty.log"
    nasty.write_bytes(
        b"\xff\xfe dflash \x00 \x1b[31m speculative_config " + b"k=v " * 30_000 + b"\n" + b"a@" * 30_000
    )
    found = collect(log(tmp_path, LOW), "--target", "tiny", "--draft", str(drafter), "--log", str(nasty))
    text = (tmp_path / "report.json").read_text()
    assert all(c.isprintable() or c == "\n" for c in text)
    assert len(found["log_lines"]) == 1
    assert len(text) < 200_000
    (drafter / "model.safetensors").write_bytes(b"\xff" * 20)
    assert "model.safetensors" in refused(
        capsys, "--target", "tiny", "--draft", str(drafter), "-o", str(tmp_path / "r2.json")
    )
    assert not (tmp_path / "r2.json").exists()
