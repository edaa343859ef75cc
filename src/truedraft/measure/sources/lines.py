"""Lines of logs as people hand them over: coloured, quoted, wrapped, cut, mixed with each other.

A statement of a log is joined from its lines and then read without any white space: wherever a terminal, a
mailer or a forum broke it, the text is the same again, and no number can end early at a line's end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

Line = tuple[int, str]
"""Number from 1, and text without line end."""

MOST_PARTS = 12
"""Lines that one statement may be wrapped into."""

MOST_CHARACTERS = 4000

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|\x9b[0-9;?]*[@-~]|\u241b\[[0-9;]*m")
_FOREIGN = re.compile(r"(?![0-9])\d")
_QUOTE = re.compile(r"^\s*(?:[>│┃|]\s?)+")
_PREFIX = re.compile(
    r"""^\s*(?:
        \([\w.-]+\s+pid=\d+\)                       # vLLM's processes
      | [\w.-]+\s*\|\s                              # docker compose
      | (?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)[\s:]
      | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d             # dates
      | \d\d-\d\d\ \d\d:\d\d:\d\d
      | \d+\.\d+\.\d+\.\d+\ [A-Z]\                  # llama.cpp's clock
      | (?:slot|srv|llama_\w+|common_\w+|spec)[\s:]
    )""",
    re.VERBOSE,
)


def cleaned(raw: bytes) -> str:
    """A line as text: colours, a byte order mark and quotation marks of replies taken away.

    Bytes that are no text, zeros and digits of other scripts become U+FFFD, which no figure has inside.
    """
    text = raw.decode("utf-8", errors="replace").replace("\x00", "\ufffd")
    if not text.isascii():
        text = _FOREIGN.sub("\ufffd", text.removeprefix("\ufeff").replace("\xa0", " "))
    return _QUOTE.sub("", _ANSI.sub("", text.rstrip("\r\n")))


def squeezed(text: str) -> str:
    """`text` without white space."""
    return "".join(text.split())


def begins_a_line(text: str) -> bool:
    """Whether a logger began a new line here, so that it continues no earlier one."""
    return _PREFIX.match(text) is not None


@dataclass(frozen=True)
class Statement:
    """A statement of a log. `text` is squeezed and begins with the anchor; `number`: its first line.

    `whole`: it has its end. Else, or if it was put together beside another one that was cut, `text` is what
    its first line holds: what follows, and begins with `after`, may belong to it or to the other.
    """

    number: int
    text: str
    whole: bool
    after: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether the next line may hold the rest of a number or of a list that `text` ends with."""
        return self.after[:1].isdigit() or self.after[:1] in (",", ".")


class Joiner:
    """Puts the statements of one kind together again.

    `anchor` begins a statement, `end` is its end in squeezed text; `pieces` matches, squeezed, what remains
    of one whose beginning is lost.
    """

    def __init__(self, anchor: re.Pattern[str], end: re.Pattern[str], pieces: re.Pattern[str]) -> None:
        self._anchor, self._end, self._pieces = anchor, end, pieces
        self._number, self._parts = 0, list[str]()
        self._previous = ""
        self._cut = -MOST_PARTS
        self.lost: list[int] = []
        """Lines that hold pieces of a statement whose beginning is missing; the reader takes them away."""

    def feed(self, number: int, line: str) -> Iterator[Statement]:
        """Statements that are complete, or cut off, once this line is known."""
        starts = [match.start() for match in self._anchor.finditer(line)]
        previous, self._previous = self._previous, line[-100:]
        if not starts and not self._parts and not begins_a_line(line):
            joined = previous + line.lstrip()
            broken = self._anchor.search(joined)  # the anchor itself was wrapped
            if broken:
                number, line, starts = number - 1, joined, [broken.start()]
        if not starts:
            yield from self._continue(number, line)
            return
        yield from self.flush()
        self._look_for_pieces(number, line[: starts[0]])
        for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
            yield from self.flush()
            self._number, self._parts = number, [line[start:end]]
            if self._ended():
                yield from self.flush()

    def _continue(self, number: int, line: str) -> Iterator[Statement]:
        if not self._parts:
            self._look_for_pieces(number, line)
            return
        full = len(self._parts) == MOST_PARTS or sum(map(len, self._parts)) > MOST_CHARACTERS
        if not line.strip() or begins_a_line(line) or full:
            yield from self.flush()
            self._look_for_pieces(number, line)
            return
        self._parts.append(line)
        if self._ended():
            yield from self.flush()

    def _ended(self) -> bool:
        return self._end.search(squeezed(" ".join(self._parts))) is not None

    def _look_for_pieces(self, number: int, line: str) -> None:
        if self._pieces.search(squeezed(line)):
            self.lost.append(number)

    @property
    def pending(self) -> bool:
        """Whether a statement is open."""
        return bool(self._parts)

    def flush(self) -> Iterator[Statement]:
        """What is still open, as far as it came."""
        if not self._parts:
            return
        whole = self._ended()
        beside = len(self._parts) > 1 and self._number - self._cut <= MOST_PARTS
        if not whole:
            self._cut = self._number
        whole = whole and not beside
        text = squeezed(" ".join(self._parts) if whole else self._parts[0])
        after = "" if whole or len(self._parts) == 1 else squeezed(self._parts[1])
        self._parts = []
        end = self._end.search(text)
        if end and self._pieces.search(text, end.end()):
            self.lost.append(self._number)
        yield Statement(self._number, text, whole, after)
