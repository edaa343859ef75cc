"""Pairs on a hub, served from localhost: what is requested, what is kept, and every way to fail."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoints import GOLDENS, TARGET, ZLAB, raw, refused_in_one_line, write_tensors
from hub_server import COMMIT, Hub, serving

from truedraft.cli import main
from truedraft.formats import _http, read_header, resolve
from truedraft.formats import hub as hub_module
from truedraft.formats._http import Client
from truedraft.formats._redirects import Redirects
from truedraft.formats.hub import FIRST_BYTES, HubId, fetch_headers, hub_id

PAIR = GOLDENS / "dflash_zlab_swa_causal"
SHARD = "/org/target/resolve/{}/model.safetensors"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_TOKEN", "HF_ENDPOINT", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the repositories org/target and org/draft: real files of a small pair."""
    with serving(Hub()) as hub:
        for role in ("target", "draft"):
            files = {p.name: p.read_bytes() for p in (PAIR / role).iterdir() if p.is_file()}
            hub.add(f"org/{role}", files)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def left_over(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "temporary").iterdir())


def test_the_contract_of_a_hub_pair_is_that_of_its_files(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["contract", "org/target", "org/draft@main", "--network", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == resolve(PAIR / "target", PAIR / "draft").contract.to_json()
    assert captured.err == ""
    assert left_over(tmp_path) == []


def test_check_takes_one_side_from_a_hub(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--json", "--engine", "vllm:0.32", "--pedantic"]
    code = main(["check", str(PAIR / "target"), "org/draft", "--network", *arguments])
    from_hub = capsys.readouterr().out
    assert main(["check", str(PAIR / "target"), str(PAIR / "draft"), *arguments]) == code
    assert from_hub == capsys.readouterr().out
    assert not hub.asked("org/target/resolve/main/config.json")
    assert left_over(tmp_path) == []


def test_only_ranges_of_tensor_files_are_requested(hub: Hub, tmp_path: Path) -> None:
    shards = {f"part-{i}.safetensors": i for i in range(3)}
    files: dict[str, bytes] = {"config.json": json.dumps(TARGET).encode()}
    for name, i in shards.items():
        write_tensors(tmp_path / name, {f"layer.{i}": (1000, 1000)})
        files[name] = (tmp_path / name).read_bytes()
    weight_map = {f"layer.{i}": name for name, i in shards.items()}
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    hub.add("org/large", files)
    directory = tmp_path / "large"
    directory.mkdir()
    assert fetch_headers(Client(hub.url), HubId("org/large"), directory) == HubId("org/large", COMMIT)
    assert hub.asked(".safetensors") == [f"bytes=0-{FIRST_BYTES - 1}"] * 4  # model.safetensors is not there
    assert hub.sent < 3 * FIRST_BYTES + 10_000 < sum(map(len, files.values())) / 20
    for name in shards:
        here, there = directory / name, tmp_path / name
        assert read_header(here) == read_header(there)
        assert here.stat().st_size == there.stat().st_size
        assert here.stat().st_blocks * 512 <= FIRST_BYTES  # sparse


def test_a_long_header_costs_a_second_request(hub: Hub, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {f"a rather long name of a tensor {i}": (1,) for i in range(3000)})
    hub.add("org/long", {"config.json": b"{}", "model.safetensors": path.read_bytes()})
    directory = tmp_path / "long"
    directory.mkdir()
    fetch_headers(Client(hub.url), HubId("org/long"), directory)
    end = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    assert end > FIRST_BYTES
    assert hub.asked(".safetensors") == [f"bytes=0-{FIRST_BYTES - 1}", f"bytes={FIRST_BYTES}-{end - 1}"]
    assert read_header(directory / "model.safetensors") == read_header(path)


def test_all_files_are_from_the_commit_of_the_config(hub: Hub, tmp_path: Path) -> None:
    directory = tmp_path / "here"
    directory.mkdir()
    fetch_headers(Client(hub.url), HubId("org/draft", "main"), directory)
    first, *others = [path for path, _, _ in hub.requests]
    assert "/resolve/main/" in first
    assert all(f"/resolve/{COMMIT}/" in path for path in others)


def test_a_revision_with_a_slash_is_one_part_of_the_path(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/other", {"config.json": b"{}"}, revision="refs%2Fpr%2F1")
    fetch_headers(Client(hub.url), hub_id("org/other@refs/pr/1") or HubId(""), tmp_path)
    assert (tmp_path / "config.json").read_bytes() == b"{}"


@pytest.mark.parametrize("sides", [("target",), ("draft",), ("target", "draft")])
def test_tokenizers_only_if_both_sides_have_one(hub: Hub, sides: tuple[str, ...]) -> None:
    for side in sides:
        hub.add(f"org/{side}", {"tokenizer.json": b"{}"})
    missing = [f"/org/{side}/resolve/{COMMIT}/tokenizer.json" for side in {"target", "draft"} - set(sides)]
    for path in missing:
        hub.files.pop(path, None)
    assert main(["contract", "org/target", "org/draft", "--network"]) == 0
    asked = hub.asked("tokenizer.json")
    assert len(asked) == {("target",): 1, ("draft",): 2, ("target", "draft"): 4}[sides]


# Failures: what the hub does -> what the user reads.


def answer(status: int, data: bytes = b"", **headers: str) -> Callable[[Any], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.reply(status, data, named)


def close_at_once(handler: Any) -> None:
    handler.close_connection = True


def garbage(handler: Any) -> None:
    handler.wfile.write(b"\x00\x01 not http \r\n\r\n")
    handler.close_connection = True


def full(begin: int, end: int, total: int | str) -> str:
    return f"bytes {begin}-{end}/{total}"


FAILURES: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "401": ("config.json", answer(401), "refuses access (status 401)"),
    "403": ("config.json", answer(403), "HF_TOKEN gives access"),
    "404": ("config.json", answer(404), "no such repository or revision, or no config.json in it"),
    "500": ("config.json", answer(500), "answers with status 500"),
    "hangs up": ("config.json", close_at_once, "cannot be fetched"),
    "no http": ("config.json", garbage, "cannot be fetched"),
    "redirect loop": ("config.json", answer(302, Location="config.json"), "answers with status 302"),
    "redirect to a file": (
        "config.json",
        answer(302, Location="file:///etc/passwd"),
        "answers with status 302",
    ),
    "redirect to ftp": ("config.json", answer(302, Location="ftp://localhost/x"), "redirects to 'ftp'"),
    "short read": ("config.json", answer(200, b"{}", Content_Length="10"), "received 2 bytes, expected 10"),
    "too large": ("config.json", answer(200, b"{}", Content_Length="99999999"), "found 99999999 bytes"),
    "compressed": ("config.json", answer(200, b"x", Content_Encoding="gzip"), "Content-Encoding 'gzip'"),
    "not JSON": ("config.json", answer(200, b"<html>"), "config.json: not JSON"),
    "no ranges": ("model.safetensors", answer(200, b"x" * 9), "ignores byte ranges"),
    "empty file": ("model.safetensors", answer(416), "no bytes in that range"),
    "no Content-Range": ("model.safetensors", answer(206, b"x" * 9), "found Content-Range ''"),
    "other range": (
        "model.safetensors",
        answer(206, b"x" * 9, Content_Range=full(1, 9, 10)),
        "found Content-Range 'bytes 1-9/10'",
    ),
    "total unknown": (
        "model.safetensors",
        answer(206, b"x" * 9, Content_Range=full(0, 8, "*")),
        "found Content-Range 'bytes 0-8/*'",
    ),
    "fewer bytes than stated": (
        "model.safetensors",
        answer(206, b"x" * 9, Content_Range=full(0, 99, 100), Content_Length="100"),
        "received 9 bytes, expected 100",
    ),
    "range cut short": (
        "model.safetensors",
        answer(206, b"x" * 9, Content_Range=full(0, 8, 10**6)),
        "found Content-Range",
    ),
    "absurd size": (
        "model.safetensors",
        answer(206, b"x" * FIRST_BYTES, Content_Range=full(0, FIRST_BYTES - 1, 10**15 - 1)),
        "found 999999999999999 bytes",
    ),
    "no safetensors": (
        "model.safetensors",
        answer(206, b"\xff" * 9, Content_Range=full(0, 8, 9)),
        "truncated safetensors file",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_one_line(
    name: str, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, behave, message = FAILURES[name]
    for revision in ("main", COMMIT):
        hub.answers[f"/org/draft/resolve/{revision}/{file}"] = behave
    assert main(["check", "org/target", "org/draft", "--network"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("truedraft: error: ")
    assert captured.err.count("\n") == 1
    assert left_over(tmp_path) == []


def test_a_header_of_100_gb_is_not_fetched(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    data = (10**11).to_bytes(8, "little") + bytes(FIRST_BYTES - 8)
    path = f"/org/draft/resolve/{COMMIT}/model.safetensors"
    hub.answers[path] = answer(206, data, Content_Range=full(0, FIRST_BYTES - 1, 10**12))
    assert main(["contract", "org/target", "org/draft", "--network"]) == 2
    assert "header of 100000000000 bytes, expected at most" in capsys.readouterr().err
    assert len(hub.asked("org/draft/resolve/" + COMMIT + "/model.safetensors")) == 1


def test_a_file_that_changes_between_two_requests(hub: Hub, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {f"a rather long name of a tensor {i}": (1,) for i in range(3000)})
    data = path.read_bytes()

    def grow(handler: Any) -> None:
        begin, end = map(int, handler.headers["Range"].removeprefix("bytes=").split("-"))
        total = len(data) + (begin > 0)
        handler.reply(206, data[begin : end + 1], {"Content-Range": full(begin, end, total)})

    hub.answers[SHARD.format(COMMIT)] = grow
    refused_in_one_line(
        lambda: fetch_headers(Client(hub.url), HubId("org/target"), tmp_path / "temporary"),
        "changed on the hub while it was read",
    )


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "../escaped.safetensors"}, "expected a file in"),
        ({"a": "config.json"}, "cannot be written (File exists)"),
        ({"a": "missing.safetensors"}, "found 'missing.safetensors', which the hub does not have"),
        ({"a": "x" * 4000}, "which the hub does not have"),
        ({str(i): f"part-{i}" for i in range(257)}, "found 257 shards, expected at most 256"),
        ([], "expected an object"),
    ],
    ids=["parent", "config", "missing", "long", "many", "list"],
)
def test_an_index_that_lies(hub: Hub, tmp_path: Path, weight_map: object, message: str) -> None:
    index = json.dumps({"weight_map": weight_map}).encode()
    hub.add("org/draft", {"model.safetensors.index.json": index})
    del hub.files[f"/org/draft/resolve/{COMMIT}/model.safetensors"]
    refused_in_one_line(
        lambda: fetch_headers(Client(hub.url), HubId("org/draft"), tmp_path / "temporary"), message
    )


def test_no_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["contract", "org/target", "org/draft", "--network"]) == 2
    assert "http://127.0.0.1:9/org/target/resolve/main/config.json: cannot be" in capsys.readouterr().err


def test_a_silent_server_and_a_dripping_one(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    def silent(handler: Any) -> None:
        time.sleep(0.6)

    def dripping(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(20):
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0.02)

    monkeypatch.setattr(_http, "TIMEOUT", 0.2)
    hub.answers["/silent"] = silent
    refused_in_one_line(lambda: Client(hub.url).whole("silent", 100), "cannot be fetched (timed out)")
    monkeypatch.setattr(_http, "DEADLINE", 0.1)
    hub.answers["/dripping"] = dripping
    refused_in_one_line(lambda: Client(hub.url).whole("dripping", 100), "took more than 0 s")


def test_the_token_stays_with_its_own_host(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with serving(Hub()) as storage:
        storage.files["/blob"] = hub.files[SHARD.format(COMMIT)]
        hub.files["/moved"] = hub.files["/org/target/resolve/main/config.json"]
        hub.answers["/org/target/resolve/main/config.json"] = answer(307, Location="/moved")
        hub.answers[SHARD.format(COMMIT)] = answer(302, Location=f"{storage.url}/blob")
        assert main(["contract", "org/target", "org/draft", "--network"]) == 0
        assert storage.requests == [("/blob", f"bytes=0-{FIRST_BYTES - 1}", "")]
    assert {token for _, _, token in hub.requests} == {"Bearer hf_secret"}
    assert any(path == "/moved" for path, _, _ in hub.requests)
    hub.answers["/org/target/resolve/main/config.json"] = answer(401)
    assert main(["contract", "org/target", "org/draft", "--network"]) == 2
    captured = capsys.readouterr()
    assert "secret" not in captured.out + captured.err


@pytest.mark.parametrize("token", ["hf_secret\nX-Evil: 1", "hf_sécret"])
def test_a_token_that_cannot_be_one_is_not_printed(token: str) -> None:
    with pytest.raises(Exception, match="HF_TOKEN: found characters that no token has") as caught:
        Client("http://localhost", token)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "file:///etc",
        "huggingface.co",
        "https://",
        "ftp://x",
        "http://[",
        "http://x:y",
        "http://a:secret@b",
        "http://a b",
    ],
)
def test_endpoints_that_are_none(endpoint: str) -> None:
    refused_in_one_line(lambda: Client(endpoint), "HF_ENDPOINT: expected an http or https address without")


def test_never_from_https_to_http() -> None:
    from urllib.request import Request

    redirects = Redirects("https://hub", {})
    with open(os.devnull, "rb") as body:
        refused_in_one_line(
            lambda: redirects.redirect_request(
                Request("https://hub/x?sig=1"), body, 302, "", {}, "http://hub/x"
            ),
            "hub: redirects to 'http', expected https",
        )


def test_without_the_flag_nothing_is_fetched(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("check", "contract", "run"):
        assert main([command, "org/target", "org/draft"]) == 2
        error = capsys.readouterr().err
        assert "'org/target': no such directory and no bundled pair" in error
        assert "--network" in error
    assert hub.requests == []


def test_weights_are_not_on_offer(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "org/target", "org/draft", "--network", "--weights"]) == 2
    assert "--weights: only headers of a hub id are fetched" in capsys.readouterr().err
    assert hub.requests == []


def test_directories_and_bundled_pairs_come_first(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(PAIR.parent)
    assert main(["contract", f"{PAIR.name}/target", f"{PAIR.name}/draft", "--network"]) == 0
    assert main(["contract", "tiny/dspark", "--network"]) == 0
    assert main(["contract", "tiny/nothing", "--network"]) == 2
    assert "has no drafter 'nothing'" in capsys.readouterr().err
    assert hub.requests == []


def test_interrupted(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hub_module, "_fetch_header", interrupt)
    assert main(["contract", "org/target", "org/draft", "--network"]) == 130
    assert left_over(tmp_path) == []


def test_slow_downloads_are_told(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import time

    data = hub.files["/org/target/resolve/main/config.json"]

    def slow(handler: Any) -> None:
        time.sleep(0.3)
        handler.reply(200, data)

    hub.answers["/org/target/resolve/main/config.json"] = slow
    monkeypatch.setattr("truedraft.cli._slow.SECONDS", 0.1)
    assert main(["contract", "org/target", "org/draft", "--network"]) == 0
    assert capsys.readouterr().err == "truedraft: fetching org/target@main/config.json …\n"
    assert main(["contract", "org/target", "org/draft", "--network", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", HubId("org/name")),
        ("org/name@v1.0", HubId("org/name", "v1.0")),
        ("org/na.me-x_1@refs/pr/3", HubId("org/na.me-x_1", "refs/pr/3")),
        ("name", None),
        ("./org/name", None),
        ("/org/name", None),
        ("org/name/more", None),
        ("org/..", None),
        ("org/name@", None),
        ("org/name@../../x", None),
        ("org/na me", None),
        ("org/name\n", None),
        ("https://huggingface.co/org/name", None),
        ("org/naïve", None),
    ],
)
def test_what_is_a_hub_id(text: str, expected: HubId | None) -> None:
    assert hub_id(text) == expected


def test_without_weights_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/bare", {"config.json": json.dumps(ZLAB).encode()})
    directory = tmp_path / "bare"
    directory.mkdir()
    fetch_headers(Client(hub.url), HubId("org/bare"), directory)
    assert [path.name for path in directory.iterdir()] == ["config.json"]


def test_a_truncated_shard_stays_one(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    raw(tmp_path / "x", entry, 4)
    hub.add("org/draft", {"model.safetensors": (tmp_path / "x").read_bytes()})
    assert main(["contract", "org/target", "org/draft", "--network"]) == 2
    assert "data ends at byte 8, but the file holds 4" in capsys.readouterr().err
