"""No read outside a checkpoint's directory: links out of it, special files, and the links that are fine."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest
from checkpoints import GOLDENS, TARGET, ZLAB, refused_in_one_line, write, write_tensors

from truedraft.formats import resolve
from truedraft.formats._inside import find_file, need_file

PAIR = GOLDENS / "dflash_zlab_swa_causal"
LEADS_OUT = "a link that leads out of the directory, expected a file inside it"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A pair with a sharded target; every file that readers open."""
    target = write(tmp_path / "target", TARGET)
    (target / "generation_config.json").write_text('{"eos_token_id": 3}')
    write_tensors(target / "part-1.safetensors", {"lm_head.weight": (256, 64)})
    index = {"weight_map": {"lm_head.weight": "part-1.safetensors"}}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    draft = tmp_path / "draft"
    shutil.copytree(PAIR / "draft", draft)
    (draft / "config.json").write_text(json.dumps(ZLAB))
    (draft / "model.safetensors").unlink()
    write_tensors(draft / "model.safetensors", {"other": (1,)})
    resolve_files(target, draft)
    return target, draft


def resolve_files(target: Path, draft: Path) -> None:
    from truedraft.formats import inspect

    inspect(target, draft)


FILES = [
    "target/config.json",
    "target/generation_config.json",
    "target/part-1.safetensors",
    "target/model.safetensors.index.json",
    "draft/config.json",
    "draft/model.safetensors",
]


@pytest.mark.parametrize("file", FILES)
def test_links_out_of_the_directory_are_refused(file: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / file
    secret = tmp_path / "secret"
    path.rename(secret)
    for link in (secret, Path("..", "secret")):
        path.symlink_to(link)
        refused_in_one_line(lambda: resolve_files(*pair), f"{path}: {LEADS_OUT}")
        path.unlink()


@pytest.mark.parametrize("file", FILES)
def test_links_to_nowhere_and_in_a_circle(file: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / file
    path.unlink()
    for link in ("nowhere", path.name):
        path.symlink_to(link)
        refused_in_one_line(lambda: resolve_files(*pair), f"{path}: a link that leads nowhere")
        path.unlink()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", ["fifo", "directory", "socket", "device", "link to a device"])
def test_special_files_are_refused_without_waiting(
    kind: str, file: str, pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / file
    path.unlink()
    message = "not a regular file"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        monkeypatch.chdir(path.parent)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    elif kind == "device":
        try:
            os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero never ends
        except PermissionError:
            pytest.skip("only root may make a device")
    else:
        path.symlink_to("/dev/zero")
        message = LEADS_OUT
    refused_in_one_line(lambda: resolve_files(*pair), f"{path}: {message}")


@pytest.mark.parametrize("file", FILES)
def test_links_inside_the_directory_are_fine(file: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / file
    (path.parent / "deeper").mkdir()
    path.rename(path.parent / "deeper" / "real")
    path.symlink_to(Path("deeper", "real"))
    resolve_files(*pair)
    path.unlink()
    path.symlink_to(path.parent / "deeper" / "real")  # an absolute link
    resolve_files(*pair)


def test_a_linked_directory_is_fine(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "there").symlink_to("target")
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    resolve_files(tmp_path / "there", tmp_path / "elsewhere" / "draft")


def cached(root: Path, name: str, source: Path) -> Path:
    """`source` as huggingface_hub caches it."""
    repository = root / f"models--org--{name}"
    snapshot = repository / "snapshots" / "0123abcd"
    (repository / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(source.iterdir())):
        shutil.copy(path, repository / "blobs" / f"hash{number}")
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", f"hash{number}"))
    return snapshot


def test_a_hugging_face_cache_is_fine(tmp_path: Path) -> None:
    target = cached(tmp_path, "target", PAIR / "target")
    draft = cached(tmp_path, "draft", PAIR / "draft")
    found = resolve(target, draft)
    assert found.contract == resolve(PAIR / "target", PAIR / "draft").contract
    assert {ref.path.name for ref in found.tensors.values()} == {"model.safetensors"}  # not the blob's hash
    (tmp_path / "link").symlink_to(draft)
    assert resolve(target, tmp_path / "link").contract == found.contract


@pytest.mark.parametrize("where", ["other repository", "not a cache", "below blobs", "a blob that is a link"])
def test_only_blobs_of_the_same_repository(where: str, tmp_path: Path) -> None:
    draft = cached(tmp_path, "draft", PAIR / "draft")
    other = cached(tmp_path, "other", PAIR / "draft")
    config = draft / "config.json"
    blob = config.resolve()
    if where == "other repository":
        config.unlink()
        config.symlink_to((other / "config.json").resolve())
    elif where == "not a cache":
        (tmp_path / "models--org--draft").rename(tmp_path / "models")
        config = tmp_path / "models" / "snapshots" / "0123abcd" / "config.json"
    elif where == "below blobs":
        (blob.parent / "deeper").mkdir()
        blob.rename(blob.parent / "deeper" / "x")
        config.unlink()
        config.symlink_to(blob.parent / "deeper" / "x")
    else:
        blob.unlink()
        blob.symlink_to("/etc/hostname")
    refused_in_one_line(lambda: need_file(config.parent, "config.json"), LEADS_OUT)


def test_what_is_not_there(tmp_path: Path) -> None:
    assert find_file(tmp_path, "config.json") is None
    refused_in_one_line(lambda: need_file(tmp_path, "config.json"), "config.json: no such file")
    assert find_file(tmp_path / "nowhere", "config.json") is None
    refused_in_one_line(lambda: find_file(tmp_path, "x" * 5000), "cannot be read (File name too long)")
