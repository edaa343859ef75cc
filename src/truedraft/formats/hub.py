"""Pairs on a hub: configs and the headers of tensor files, fetched into a directory without the weights.

A shard becomes a sparse file: its real header, then a hole up to its real size. All readers of local files
work on it unchanged, and none of them reads tensor values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from truedraft.contract import InputError
from truedraft.formats._http import Client
from truedraft.formats._json import CONFIG_BYTES
from truedraft.formats._safetensors import HEADER_BYTES, INDEX, INDEX_BYTES, SINGLE, read_index

ENDPOINT = "https://huggingface.co"
MAX_SHARDS = 256
TOKENIZER = "tokenizer.json"
TOKENIZER_BYTES = 64 * 10**6

OPTIONAL = (
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
    "hf_quant_config.json",
    "quant_model_description.json",
)
"""Small files that some reader may want."""

FIRST_BYTES = 128 * 1024
"""Asked for first; most headers are shorter, so that one request is enough."""

MAX_FILE_BYTES = 2**43

_ID = re.compile(r"([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@([\w./-]{1,200}))?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")

Progress = Callable[[str], None]
"""Told what is fetched next."""


@dataclass(frozen=True)
class HubId:
    """`org/name@revision` on a hub."""

    repository: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision}"


def hub_id(text: str) -> HubId | None:
    """`org/name[@revision]` as a hub id, `None` for any other text."""
    found = _ID.fullmatch(text)
    if found is None or ".." in text:
        return None
    return HubId(found[1], found[2] or "main")


def client_of_environment() -> Client:
    """The hub of `HF_ENDPOINT` (default huggingface.co), with the token of `HF_TOKEN` if there is one."""
    return Client(os.environ.get("HF_ENDPOINT") or ENDPOINT, os.environ.get("HF_TOKEN", "").strip())


def fetch_headers(
    client: Client, wanted: HubId, directory: Path, progress: Progress = lambda _: None
) -> HubId:
    """Fill `directory` with what readers need of a repository; the id of the commit that it is from.

    Fetched whole: `config.json`, `OPTIONAL` and the index; of tensor files only the headers. Raises
    `InputError` with one line for whatever the hub or the network refuses, and for more than `MAX_SHARDS`
    shards.
    """
    progress(f"{wanted}/config.json")
    config = client.whole(_path(wanted, "config.json"), CONFIG_BYTES)
    if config is None:
        raise InputError(f"{wanted}: the hub has no such repository or revision, or no config.json in it")
    data, commit = config
    _write(directory / "config.json", data)
    if _COMMIT.fullmatch(commit):  # all files from one state, even if somebody pushes meanwhile
        wanted = HubId(wanted.repository, commit)
    for name in OPTIONAL:
        _fetch_whole(client, wanted, name, directory, INDEX_BYTES, progress)
    if _fetch_header(client, wanted, SINGLE, directory, progress):
        return wanted  # it wins over an index, as in find_tensors
    if _fetch_whole(client, wanted, INDEX, directory, INDEX_BYTES, progress):
        shards = sorted(set(read_index(directory / INDEX).values()))
        if len(shards) > MAX_SHARDS:
            raise InputError(f"{wanted}/{INDEX}: found {len(shards)} shards, expected at most {MAX_SHARDS}")
        for shard in shards:
            if not _fetch_header(client, wanted, shard, directory, progress):
                raise InputError(f"{wanted}/{INDEX}: found {shard!r:.80}, which the hub does not have")
    return wanted


def fetch_tokenizers(
    client: Client, wanted: Iterable[tuple[HubId, Path]], progress: Progress = lambda _: None
) -> None:
    """`tokenizer.json` of every repository, if all have one of at most `TOKENIZER_BYTES`."""
    places = list(wanted)
    if all(client.exists(_path(place, TOKENIZER), TOKENIZER_BYTES) for place, _ in reversed(places)):
        for place, directory in places:
            _fetch_whole(client, place, TOKENIZER, directory, TOKENIZER_BYTES, progress)


def _fetch_whole(
    client: Client, wanted: HubId, name: str, directory: Path, limit: int, progress: Progress
) -> bool:
    progress(f"{wanted}/{name}")
    found = client.whole(_path(wanted, name), limit)
    if found is not None:
        _write(directory / name, found[0])
    return found is not None


def _fetch_header(client: Client, wanted: HubId, name: str, directory: Path, progress: Progress) -> bool:
    """A sparse file, if the hub has it; a header that is none is for the reader of local files to refuse."""
    progress(f"{wanted}/{name}")
    path = _path(wanted, name)
    first = client.range(path, 0, FIRST_BYTES)
    if first is None:
        return False
    end = 8 + int.from_bytes(first.data[:8], "little")
    data = first.data[:end]
    if first.total > MAX_FILE_BYTES:
        raise InputError(f"{path}: found {first.total} bytes, expected at most {MAX_FILE_BYTES}")
    if len(first.data) < end <= min(first.total, 8 + HEADER_BYTES):
        rest = client.range(path, len(first.data), end)
        if rest is None or rest.total != first.total:
            raise InputError(f"{path}: changed on the hub while it was read, expected {first.total} bytes")
        data += rest.data
    _write(directory / name, data, first.total)
    return True


def _write(path: Path, data: bytes, size: int | None = None) -> None:
    try:
        with path.open("xb") as file:
            file.write(data)
            if size is not None:
                file.truncate(size)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def _path(wanted: HubId, name: str) -> str:
    return f"{wanted.repository}/resolve/{quote(wanted.revision, safe='')}/{quote(name, safe='')}"
