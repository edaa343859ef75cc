"""What a collected file says of the prompts; their texts only if the user wants it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from truedraft.checks.rules._random_text import sign_of_randomness
from truedraft.cli._check_input import prompt_texts
from truedraft.cli._diagnose_given import Given
from truedraft.contract import InputError
from truedraft.formats._bundled import locate_pair
from truedraft.formats._inside import find_file
from truedraft.formats.tokenizer_files import TOKENIZER

QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


def prompts_json(given: Given, with_texts: bool) -> dict[str, Any]:
    """Number, lengths, checksums, repeats, signs of randomness. Raises `InputError` for a bad prompt file."""
    assert given.prompts is not None
    texts = prompt_texts(given.prompts)
    sums = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    signs = Counter(sign for text in texts if (sign := sign_of_randomness(text)))
    lengths = _token_lengths(texts, given)
    out: dict[str, Any] = {
        "count": len(texts),
        "characters": _quantiles([len(text) for text in texts]),
        "tokens": None if lengths is None else _quantiles(lengths),
        "repeated_share": 1 - len(set(sums)) / len(sums),
        "random_share": signs.total() / len(texts),
        "random_signs": dict(signs),
        "sha256": sums,
    }
    return out | ({"texts": list(texts)} if with_texts else {})


def _quantiles(values: Sequence[int]) -> dict[str, int]:
    """Quantiles that occur among the values, by their percentage."""
    ordered = sorted(values)
    return {f"{q:.0%}": ordered[round(q * (len(ordered) - 1))] for q in QUANTILES}


def _token_lengths(texts: Sequence[str], given: Given) -> list[int] | None:
    """Tokens per prompt without a template; `None` without the target's tokenizer and the library for it."""
    if all(_is_ids(text) for text in texts):
        return [text.count(",") + 1 for text in texts]
    if given.target is None:
        return None
    directory = locate_pair(given.target, given.draft)[0]
    if find_file(directory, TOKENIZER) is None:
        return None
    try:
        tokenizer = import_module("tokenizers").Tokenizer.from_file(str(directory / TOKENIZER))
        return [text.count(",") + 1 if _is_ids(text) else len(tokenizer.encode(text).ids) for text in texts]
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:  # a library that is missing or does not read this file: no lengths, no harm
        return None


def _is_ids(text: str) -> bool:
    """Whether this is a list of token ids as `prompt_texts` writes it."""
    return text.startswith("[") and text.endswith("]") and text[1:-1].replace(", ", "").isdecimal()


def rendered(given: Given) -> dict[str, Any]:
    """The first prompt in the target's chat template, or why there is none."""
    assert given.prompts is not None
    assert given.target is not None
    first = prompt_texts(given.prompts)[0]
    if _is_ids(first):
        return {"not_rendered": "the first prompt is token ids"}
    try:
        return {"rendered": _render(locate_pair(given.target, given.draft)[0], first, given.thinking)}
    except ImportError:
        return {"not_rendered": "transformers is not installed (truedraft[engine])"}
    except InputError as error:
        return {"not_rendered": str(error)}


def _render(directory: Path, text: str, thinking: bool | None) -> str:
    from truedraft.models.load import load_tokenizer
    from truedraft.models.third_party import as_input_error, quiet

    tokenizer = load_tokenizer(directory)
    if tokenizer is None:
        raise InputError("the target has no tokenizer")
    switch = {} if thinking is None else {"enable_thinking": thinking}
    with quiet(), as_input_error(directory, "a chat template that it can render"):
        return str(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True, **switch
            )
        )
