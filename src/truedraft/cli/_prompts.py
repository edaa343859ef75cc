"""Prompts from the command line, from files and from bundled pairs, as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truedraft.contract import InputError, TargetSpec
from truedraft.formats import evaluation_prompts, is_bundled

if TYPE_CHECKING:
    from truedraft.measure import Prompt

DEFAULT_NEW_TOKENS = 128
LIMIT_BYTES = 16 * 2**20

WHERE = " where"
"""Key of an entry under which its file and line are kept; no JSON of ours has it."""


def gather(
    texts: Sequence[str], file: Path | None, target: str = "", draft: str | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Prompt entries (`id` and `text` or `tokens`) and the default number of new tokens.

    `--prompt` and `--prompt-file` come first; a bundled pair, named as target or drafter, without either
    has its stated prompts.
    """
    entries: list[dict[str, Any]] = [{"id": f"prompt{i}", "text": text} for i, text in enumerate(texts)]
    if file is not None:
        entries += list(_from_file(file))
    if entries:
        return entries, DEFAULT_NEW_TOKENS
    if file is not None:
        raise InputError(f"{file}: found no prompt, expected at least one")
    for name in (target, draft or ""):
        if is_bundled(name):
            stated, count = evaluation_prompts(name)
            return list(stated), count
    raise InputError("found no prompt, expected --prompt TEXT or --prompt-file FILE")


def _from_file(path: Path) -> Iterable[dict[str, Any]]:
    """One prompt per line of a `.jsonl` file ({"text"} or {"tokens"}, optional "id"); else one whole text."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(LIMIT_BYTES + 1)
        if len(raw) > LIMIT_BYTES:
            raise InputError(f"{path}: found more than {LIMIT_BYTES} bytes, expected a prompt file")
        content = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"{path}: {reason}, expected a prompt file") from None
    if path.suffix != ".jsonl":
        if not content:
            raise InputError(f"{path}: found an empty file, expected the text of a prompt")
        yield {"id": path.stem, "text": content, WHERE: str(path)}
        return
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}:{number}: not JSON, expected one object per line") from None
        if not isinstance(entry, dict) or ("text" in entry) == ("tokens" in entry):
            raise InputError(f'{path}:{number}: expected an object with either "text" or "tokens"')
        _check_entry(entry, f"{path}:{number}")
        yield {"id": str(entry.get("id", f"{path.stem}:{number}")), **entry, WHERE: f"{path}:{number}"}


def _check_entry(entry: dict[str, Any], where: str) -> None:
    """What can be said of a prompt before the target is loaded."""
    category = entry.get("category", "")
    if not isinstance(category, str):
        raise InputError(f"{where}#/category: found {category!r:.80}, expected text")
    if "text" in entry:
        if not isinstance(entry["text"], str) or not entry["text"]:
            raise InputError(f"{where}#/text: found {entry['text']!r:.80}, expected text")
        return
    ids = entry["tokens"]
    if not isinstance(ids, list) or not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        raise InputError(f"{where}#/tokens: found {ids!r:.80}, expected a list of whole numbers")
    if not ids:
        raise InputError(f"{where}#/tokens: found no tokens, expected at least 1")


def tokenize(entries: Iterable[dict[str, Any]], tokenizer: Any, target: TargetSpec) -> list[Prompt]:
    """Token ids of every entry.

    Raises `InputError` for empty prompts, ids outside the vocabulary and prompts beyond the context.
    """
    from truedraft.measure import Prompt

    prompts = []
    for entry in entries:
        name = str(entry["id"])
        try:
            ids = _ids(entry, tokenizer)
            _check(ids, target)
        except InputError as error:
            raise InputError(f"{entry.get(WHERE) or f'prompt {name:.80}'}: {error}") from None
        prompts.append(Prompt(name, tuple(ids), entry.get("category", "")))
    return prompts


def _ids(entry: dict[str, Any], tokenizer: Any) -> list[int]:
    from truedraft.models import encode

    if "tokens" in entry:
        return list(entry["tokens"])
    if tokenizer is None:
        raise InputError("the target has no tokenizer; expected a .jsonl prompt file with tokens")
    return encode(tokenizer, entry["text"])


def _check(ids: list[int], target: TargetSpec) -> None:
    if not ids:
        raise InputError("found no tokens, expected at least 1")
    outside = next((i for i in ids if not 0 <= i < target.vocab_size), None)
    if outside is not None:
        raise InputError(f"found token {outside!s:.40}, expected 0 to {target.vocab_size - 1}")
    if len(ids) >= target.max_positions:
        raise InputError(
            f"found {len(ids)} tokens, expected fewer than the target's {target.max_positions} positions"
        )
