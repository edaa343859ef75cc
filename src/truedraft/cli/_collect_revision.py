"""Which revision of a repository a directory holds, as far as the directory itself tells."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from truedraft.contract import InputError
from truedraft.formats._inside import find_file
from truedraft.formats.hub import client_of_environment, hub_id

COMMIT = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"ref: (refs/[\w./-]{1,200})")
SMALL = 2**20


def revision_on_hub(directory: Path, name: str) -> dict[str, str] | None:
    """The commit of a hub id whose config was fetched into `directory`; one request.

    Without a commit, or if somebody pushed another config meanwhile, the revision as typed.
    """
    hub = hub_id(name)
    if hub is None:
        return None
    path = f"{hub.repository}/resolve/{quote(hub.revision, safe='')}/config.json"
    found = client_of_environment().whole(path, SMALL * 16)
    same = found is not None and found[0] == (directory / "config.json").read_bytes()
    known = found is not None and same and COMMIT.fullmatch(found[1])
    revision, origin = (found[1], "hub") if found is not None and known else (hub.revision, "as typed")
    return {"repository": hub.repository, "revision": revision, "from": origin}


def revision_of(directory: Path) -> dict[str, str] | None:
    """`{"revision", "from"}` and, where it is known, `repository`; `None` if nothing tells.

    A Hugging Face cache (`models--org--name/snapshots/REVISION`), a download with `hf download --local-dir`
    (`.cache/huggingface/download/*.metadata`), or a git clone (`.git/HEAD`).
    """
    real = directory.resolve()
    if real.parent.name == "snapshots" and real.parent.parent.name.startswith("models--"):
        repository = real.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
        return {"repository": repository, "revision": real.name, "from": "snapshot in a cache"}
    first = _read(directory, ".cache/huggingface/download/config.json.metadata").partition("\n")[0].strip()
    if COMMIT.fullmatch(first):
        return {"revision": first, "from": "metadata of a download"}
    head = _read(directory, ".git/HEAD").strip()
    found = _REF.fullmatch(head)
    if found is not None and ".." not in head:
        head = _read(directory, f".git/{found[1]}").strip() or _packed(directory, found[1])
    return {"revision": head, "from": ".git"} if COMMIT.fullmatch(head) else None


def _packed(directory: Path, ref: str) -> str:
    for line in _read(directory, ".git/packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _read(directory: Path, name: str) -> str:
    """A small file of the directory, or "": what is not there or leads elsewhere tells nothing."""
    try:
        path = find_file(directory, name)
        if path is None:
            return ""
        with path.open("rb") as file:
            return file.read(SMALL).decode("utf-8", errors="replace")
    except (OSError, InputError):
        return ""
