"""UTF-16 as UTF-8: what Windows shells write when output is redirected into a file."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

SAMPLE = 64


def recoded(parts: Iterator[bytes]) -> Iterator[bytes]:
    """`parts` as they are, or as UTF-8 if they begin as UTF-16 does: with its mark, or every other byte 0."""
    head = b""
    for part in parts:
        head += part
        if len(head) >= SAMPLE:
            break
    name = _utf16(head)
    if name is None:
        yield head
        yield from parts
        return
    decoder = codecs.getincrementaldecoder(name)("replace")
    yield decoder.decode(head).removeprefix("\ufeff").encode("utf-8", "replace")
    for part in parts:
        yield decoder.decode(part).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")


def _utf16(head: bytes) -> str | None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if head.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    first, second = head[:SAMPLE:2], head[1:SAMPLE:2]
    if len(second) > 1 and not any(second) and all(first[: len(second)]):
        return "utf-16-le"
    if len(second) > 1 and not any(first) and all(second):
        return "utf-16-be"
    return None
