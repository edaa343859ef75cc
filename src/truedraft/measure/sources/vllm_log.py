"""vLLM's `SpecDecoding metrics:` line, one per logging interval (10 s by default), reset after each.

Format: vllm/v1/spec_decode/metrics.py. The generations differ in their fields:

* April 2025: `Draft acceptance rate: %.1f%%, Accepted: %d tokens, Drafted: %d tokens`;
* #16665 adds `Mean acceptance length: %.2f` and `Per-position acceptance rate: %.3f, …`; the length counts
  the bonus token since #17908 (May 2025);
* later: length first, two throughputs, `Avg Draft acceptance rate` last (`nan%` where nothing was drafted).

Per-position rates are shares of all drafts of the interval. The number of drafts is not printed: `deduce`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.definitions import (
    LENGTH,
    LENGTH_UNKNOWN,
    LENGTH_WITHOUT_BONUS,
    RATE,
    SURVIVAL,
)
from truedraft.measure.sources.lines import Joiner, Statement
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation, figure

NAME = "vllm-log"
MARKER = re.compile(r"SpecDecod|acceptance (?:rate|length)|Drafted|metrics\.py")

_ANCHOR = re.compile(r"SpecDecoding\s*metrics\s*:")
_PIECES = re.compile(
    r"SpecDecoding(?:m|$)|Meanacceptancelength:|(?:Accepted|Drafted)(?:throughput)?:[\d.]+tok|"
    r"Per-positionacceptancerate:|Draftacceptancerate:[\d.]+%"
)
_HEAD = "SpecDecodingmetrics:"
_LAST = re.compile(r"AvgDraftacceptancerate:(?:\d{1,15}\.\d|nan)%")
_FIELDS = {
    "length": re.compile(r"Meanacceptancelength:(\d{1,15}\.\d\d)(?!\d)"),
    "accepted throughput": re.compile(r"Acceptedthroughput:\d{1,15}\.\d\dtokens/s"),
    "drafted throughput": re.compile(r"Draftedthroughput:\d{1,15}\.\d\dtokens/s"),
    "accepted": re.compile(r"Accepted:(\d{1,15})tokens(?!/)"),
    "drafted": re.compile(r"Drafted:(\d{1,15})tokens(?!/)"),
    "positions": re.compile(r"Per-positionacceptancerate:\[?(\d\.\d{2,3}(?:,\d\.\d{2,3})*)(?![\d.])\]?"),
    "rate": re.compile(r"(?:Avg)?Draftacceptancerate:(\d{1,15}\.\d|nan)%"),
}


@dataclass
class Reader:
    """Feed it the lines of a log; `where`: the file."""

    where: str
    _joiner: Joiner = field(default_factory=lambda: Joiner(_ANCHOR, _LAST, _PIECES))

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """What is known once this line is read."""
        yield from self._items(self._joiner.feed(number, line))

    @property
    def pending(self) -> bool:
        """Whether a statement is open."""
        return self._joiner.pending

    def finish(self) -> Iterator[Item]:
        """What was still open at the end of the file."""
        yield from self._items(self._joiner.flush())

    def _items(self, statements: Iterator[Statement]) -> Iterator[Item]:
        for statement in statements:
            yield from _read(statement, f"{self.where}:{statement.number}")
        for number in self._joiner.lost:
            yield Notice(
                f"{self.where}:{number}",
                "lost",
                "pieces of a SpecDecoding line without its beginning: not used",
            )
        self._joiner.lost.clear()


def _fields(text: str) -> tuple[dict[str, str], str]:
    """The fields that follow each other without a gap, and what comes behind them."""
    found: dict[str, str] = {}
    rest = text.removeprefix(_HEAD)
    while True:
        for name, pattern in _FIELDS.items():
            match = None if name in found else pattern.match(rest)
            if match:
                found[name] = match[1] if match.lastindex else ""
                rest = rest[match.end() :]
                break
        else:
            return found, rest
        if not rest.startswith(",") or not any(p.match(rest, 1) for p in _FIELDS.values()):
            return found, rest
        rest = rest[1:]


def _read(statement: Statement, where: str) -> Iterator[Item]:
    fields, rest = _fields(statement.text)
    names = list(fields)
    counted = "accepted" in fields and "drafted" in fields
    early = names[:1] == ["rate"]  # the generation that begins with the rate; others end with it
    open_end = early and (rest[:1] in (",", "\ufffd") or rest[:1].isdigit() or statement.goes_on)
    closed = counted and (early or names[-1:] == ["rate"]) and not open_end
    positions = fields["positions"].split(",") if "positions" in fields else []
    if len({len(share) for share in positions}) > 1 or (
        names[-1:] == ["positions"] and not (early and closed)
    ):
        positions, closed = [], False  # the list has lost digits or its end
    if not closed:
        known = ", ".join(name for name in names if name != "positions" or positions) or "nothing"
        yield Notice(where, "partial", f"SpecDecoding line is cut or mixed with another; read: {known}")
    if not fields:
        return
    shares = tuple(figure(f"survival[{i}]", text, SURVIVAL) for i, text in enumerate(positions))
    rate = None
    if fields.get("rate", "nan") != "nan":
        rate = figure("draft acceptance rate", fields["rate"], RATE, 0.01)
    printed = length = (
        figure("mean acceptance length", fields["length"], LENGTH) if "length" in fields else None
    )
    if length is not None and early:
        printed, length = _old_length(length, shares)
    wrong = ""
    if shares and printed is not None and length is None:
        told = f"acceptance length {printed.value:g}"
        wrong = f"{told} is not the sum of the per-position rates, neither with nor without 1"
    yield settled(
        Observation(
            source=NAME,
            where=where,
            scope="interval",
            contradiction=wrong,
            accepted=int(fields["accepted"]) if counted else None,
            proposed=int(fields["drafted"]) if counted else None,
            survival=shares,
            width=len(shares) or None,
            length=length,
            stated=tuple(f for f in (printed, rate) if f is not None),
            engine="vllm",
        ),
        rate,
    )


def _old_length(length: Figure, shares: tuple[Figure, ...]) -> tuple[Figure, Figure | None]:
    """A length of the generation that first left the bonus token out: as printed, and as τ if it is clear."""
    low, high = sum(r.low for r in shares), sum(r.high for r in shares)
    without = bool(shares) and low <= length.high and length.low <= high
    counts = bool(shares) and 1 + low <= length.high and length.low <= 1 + high
    if without or length.high < 1:
        printed = Figure(length.name, length.value, length.step, LENGTH_WITHOUT_BONUS)
        return printed, Figure(length.name, length.value + 1, length.step, LENGTH)
    if counts:
        return length, length
    return Figure(length.name, length.value, length.step, LENGTH_UNKNOWN), None
