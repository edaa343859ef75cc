"""Prompts from the command line, from files and from bundled pairs, as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truedraft.contract import InputError
from truedraft.formats import bundled_pairs, evaluation_prompts

if TYPE_CHECKING:
    from truedraft.measure import Prompt

DEFAULT_NEW_TOKENS = 128
LIMIT_BYTES = 64 * 2**20


def gather(target: str, texts: Sequence[str], file: Path | None) -> tuple[list[dict[str, Any]], int]:
    """Prompt entries (`id` and `text` or `tokens`) and the default number of new tokens.

    `--prompt` and `--prompt-file` come first; a bundled pair without either has its stated prompts.
    """
    entries: list[dict[str, Any]] = [{"id": f"prompt{i}", "text": text} for i, text in enumerate(texts)]
    if file is not None:
        entries += list(_from_file(file))
    if entries:
        return entries, DEFAULT_NEW_TOKENS
    if target.split("/")[0] in bundled_pairs():
        stated, count = evaluation_prompts(target)
        return list(stated), count
    raise InputError("found no prompt, expected --prompt TEXT or --prompt-file FILE")


def _from_file(path: Path) -> Iterable[dict[str, Any]]:
    """One prompt per line of a `.jsonl` file ({"text"} or {"tokens"}, optional "id"); else one whole text."""
    try:
        if path.stat().st_size > LIMIT_BYTES:
            raise InputError(f"{path}: found {path.stat().st_size} bytes, expected at most {LIMIT_BYTES}")
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"{path}: {reason}, expected a prompt file") from None
    if path.suffix != ".jsonl":
        yield {"id": path.stem, "text": content}
        return
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}:{number}: not JSON, expected one object per line") from None
        if not isinstance(entry, dict) or ("text" in entry) == ("tokens" in entry):
            raise InputError(f'{path}:{number}: expected an object with either "text" or "tokens"')
        yield {"id": str(entry.get("id", f"{path.stem}:{number}")), **entry}


def tokenize(entries: Iterable[dict[str, Any]], tokenizer: Any, vocab_size: int) -> list[Prompt]:
    """Token ids of every entry. Raises `InputError` for empty prompts and ids outside the vocabulary."""
    from truedraft.measure import Prompt

    prompts = []
    for entry in entries:
        name = entry["id"]
        if "tokens" in entry:
            ids = entry["tokens"]
            good = isinstance(ids, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in ids)
            if not good:
                raise InputError(f"prompt {name}: expected tokens to be a list of whole numbers")
        elif not isinstance(entry["text"], str):
            raise InputError(f"prompt {name}: found {entry['text']!r}, expected text")
        elif tokenizer is None:
            raise InputError(
                f"prompt {name}: the target has no tokenizer; expected a .jsonl prompt file with tokens"
            )
        else:
            ids = tokenizer(entry["text"]).input_ids
        if not ids:
            raise InputError(f"prompt {name}: found no tokens, expected at least 1")
        outside = next((i for i in ids if not 0 <= i < vocab_size), None)
        if outside is not None:
            raise InputError(f"prompt {name}: found token {outside}, expected 0 to {vocab_size - 1}")
        prompts.append(Prompt(str(name), tuple(ids)))
    return prompts
