"""Text from files that nobody vouches for, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` on one line, with control characters, bidirectional marks and lone surrogates escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
