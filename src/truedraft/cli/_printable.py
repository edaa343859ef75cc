"""Text from files that nobody vouches for, made fit for a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def printable(text: str) -> str:
    """`text` on one line, with control characters, bidirectional marks and lone surrogates escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def dumped(value: Mapping[str, Any]) -> str:
    """JSON that any reader and any terminal bears: no lone surrogates, no C1 or bidirectional controls."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return "\n".join(escaped(line) for line in text.split("\n"))


def escaped(text: str) -> str:
    """JSON on one line, with every character in its strings that a terminal may act on escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped_json(c) for c in text)


def _escaped_json(character: str) -> str:
    return "\ufffd" if "\ud800" <= character <= "\udfff" else json.dumps(character)[1:-1]
