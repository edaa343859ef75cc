"""What the tokenizer files of a checkpoint say: strings of token ids, special tokens, chat template."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truedraft.contract import InputError
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._inside import find_file
from truedraft.formats._json import load_object, read_bytes

TOKENIZER = "tokenizer.json"

PARSED_BYTES = 12 * 2**20
"""Largest `tokenizer.json` that is parsed: Qwen's has 11 MB, Gemma's 33 MB needs some 400 MB of memory."""

TOKENIZER_BYTES = 4 * 2**20
"""Largest side file that is read: tokenizer_config.json with its added tokens, a chat template."""

SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")

_SWITCH = re.compile(r"\benable_thinking\b|\bthinking\s+is\s+(?:not\s+)?defined\b")


@dataclass(frozen=True)
class Vocabulary:
    """Strings of token ids. `added`: the ids that stand in `added_tokens`; `where`: the file."""

    strings: Mapping[int, str]
    added: frozenset[int]
    where: str


@dataclass(frozen=True)
class ChatTemplate:
    """A Jinja template. `thinking_switch`: it asks for a variable that turns thinking on or off."""

    text: str
    where: str

    @property
    def thinking_switch(self) -> bool:
        """Whether the caller of the template can turn thinking on or off."""
        return _SWITCH.search(self.text) is not None


def vocabularies(first: Checkpoint, second: Checkpoint) -> tuple[Vocabulary, Vocabulary] | None:
    """Both vocabularies if they have `tokenizer.json` files of different bytes, else `None`.

    Equal files are compared as bytes only, so that two large vocabularies cost one read each.
    """
    paths = _different_files(first, second)
    if paths is None or too_large(first, second):
        return None
    one, other = (
        _vocabulary(load_object(path, limit=PARSED_BYTES), path, checkpoint)
        for path, checkpoint in zip(paths, (first, second), strict=True)
    )
    return one, other


def too_large(first: Checkpoint, second: Checkpoint) -> str | None:
    """Which of two different `tokenizer.json` is too large to be parsed, or `None`."""
    for path, checkpoint in zip(_different_files(first, second) or (), (first, second), strict=False):
        if path.stat().st_size > PARSED_BYTES:
            return f"{checkpoint.role}/{path.name}"
    return None


def _different_files(first: Checkpoint, second: Checkpoint) -> tuple[Path, Path] | None:
    """The two `tokenizer.json`, if both exist and are not the same bytes."""
    one, other = (find_file(checkpoint.directory, TOKENIZER) for checkpoint in (first, second))
    if one is None or other is None or one.samefile(other):
        return None
    same = one.stat().st_size == other.stat().st_size and _digest(one) == _digest(other)
    return None if same else (one, other)


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def special_tokens(checkpoint: Checkpoint) -> dict[str, str]:
    """Begin, end, padding and unknown token; `special_tokens_map.json` fills what the config omits."""
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        content = _optional(checkpoint.directory / name)
        for role in SPECIAL:
            entry = content.get(role)
            text = entry.get("content") if isinstance(entry, dict) else entry
            if isinstance(text, str):
                found[role] = text
    return found


def chat_template(checkpoint: Checkpoint) -> ChatTemplate | None:
    """The default chat template, or `None`.

    As in `transformers`, `chat_template.jinja` precedes `chat_template.json` and `tokenizer_config.json`.
    """
    path = checkpoint.directory / "chat_template.jinja"
    if find_file(path.parent, path.name) is not None:
        try:
            text = read_bytes(path, TOKENIZER_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not UTF-8 at byte {error.start}, expected a template") from None
        return ChatTemplate(text, f"{checkpoint.role}/{path.name}")
    for name in ("chat_template.json", "tokenizer_config.json"):
        stated = _optional(checkpoint.directory / name).get("chat_template")
        default = _named_default(stated) if isinstance(stated, list) else stated
        if isinstance(default, str):
            return ChatTemplate(default, checkpoint.where("/chat_template", name))
    return None


def _vocabulary(content: Mapping[str, Any], path: Path, checkpoint: Checkpoint) -> Vocabulary:
    strings: dict[int, str] = {}
    for id_, text in _model_entries(content, path):
        if not isinstance(text, str) or not isinstance(id_, int) or isinstance(id_, bool) or id_ < 0:
            raise InputError(f"{path}#/model/vocab: found {text!r:.40} for {id_!r:.40}, expected ids >= 0")
        strings[id_] = text
    added = content.get("added_tokens") or []
    if not isinstance(added, list):
        raise InputError(f"{path}#/added_tokens: found {added!r:.40}, expected a list")
    for index, entry in enumerate(added):
        fields = entry if isinstance(entry, dict) else {}
        id_, text = fields.get("id"), fields.get("content")
        if not isinstance(text, str) or not isinstance(id_, int) or isinstance(id_, bool) or id_ < 0:
            raise InputError(f"{path}#/added_tokens/{index}: expected an object with id >= 0 and content")
        strings[id_] = text
    ids = frozenset(entry["id"] for entry in added)
    return Vocabulary(strings, ids, f"{checkpoint.role}/{path.name}")


def _model_entries(content: Mapping[str, Any], path: Path) -> Iterator[tuple[Any, Any]]:
    """Pairs of id and string: `vocab` is an object (BPE, WordPiece) or a list of pairs (Unigram)."""
    model = content.get("model")
    entries = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(entries, dict):
        yield from ((id_, text) for text, id_ in entries.items())
    elif isinstance(entries, list):
        yield from (
            (i, pair[0] if isinstance(pair, list) and pair else pair) for i, pair in enumerate(entries)
        )
    else:
        raise InputError(f"{path}#/model/vocab: found {entries!r:.40}, expected an object or a list")


def _named_default(templates: list[Any]) -> Any:
    for entry in templates:
        if isinstance(entry, dict) and entry.get("name") == "default":
            return entry.get("template")
    return None


def _optional(path: Path) -> dict[str, Any]:
    return load_object(path, limit=TOKENIZER_BYTES) if find_file(path.parent, path.name) else {}
