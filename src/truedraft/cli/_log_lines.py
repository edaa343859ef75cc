"""The lines of huge logs that hold one of a few words, fast: the others are not taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from truedraft.cli._slow import told_when_slow
from truedraft.cli._text_file import opened

CHUNK = 2**20
LINE_BYTES = 2**16
"""Of longer lines the beginning is looked at."""


def lines_with(path: Path, words: tuple[str, ...], *, quiet: bool) -> Iterator[tuple[int, str]]:
    """Numbered lines, from 1, that hold one of `words` (lower case, ASCII), whatever their case.

    stderr hears of it if it takes long. Raises `InputError` for what cannot be read.
    """
    sought = tuple(word.encode() for word in words)
    with told_when_slow(quiet, "reading") as tell, opened(path) as file:
        tell(str(path))
        before, rest = 0, b""
        while part := file.read(CHUNK):
            data = rest + part
            end = data.rfind(b"\n") + 1
            rest = data[end : end + LINE_BYTES]
            yield from _lines(data[:end], sought, before)
            before += data.count(b"\n")
        yield from _lines(rest, sought, before)


def _lines(block: bytes, sought: tuple[bytes, ...], before: int) -> Iterator[tuple[int, str]]:
    lower = block.lower()
    here = [word for word in sought if word in lower]
    if not here:
        return
    for number, line in enumerate(block.split(b"\n"), before + 1):
        line = line[:LINE_BYTES]
        lower = line.lower()
        if any(word in lower for word in here):
            yield number, line.decode("utf-8", errors="replace").rstrip("\r")
