"""SGLang's `Decode batch` line: the acceptance length of one interval, without the rounds behind it.

Format: sglang/srt/…/scheduler_metrics_mixin.py. `accept len` counts the bonus token in every release.
`accept rate` has had three meanings (and a fourth in sglang-jax); which one a log has shows only where its
lines leave one whole number of drafts per round. τ therefore always comes from the length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from truedraft.measure.sources.agree import no_length
from truedraft.measure.sources.definitions import (
    LENGTH,
    RATE_SGLANG,
    RATE_SGLANG_NEW,
    RATE_SGLANG_OLD,
    TAU_GAUGE,
)
from truedraft.measure.sources.lines import Joiner, Statement
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation, figure

NAME = "sglang-log"
BENCH = "sglang-bench"
MARKER = re.compile(r"Decode batch|[aA]ccept (?:len|rate)")

_ANCHOR = re.compile(r"Decode\s*batch(?=[\s.,\[])")
_PIECES = re.compile(r"accept(?:len|rate):\d")
_LENGTH = re.compile(r"acceptlen:(\d{1,15}\.\d\d),")
_RATE = re.compile(r"acceptlen:\d{1,15}\.\d\d,acceptrate:(\d{1,15}\.\d\d),")
_END = re.compile(r"#queue-req:\d")
_BENCH = re.compile(r"\s*Accept length:\s+(\d{1,15}\.\d\d)\s*$")


@dataclass
class RateMeaning:
    """Narrows what a log's `accept rate` is, by the drafts per round that each meaning would need."""

    bounds: dict[str, tuple[float, float]] = field(
        default_factory=lambda: {RATE_SGLANG_NEW: (1.0, math.inf), RATE_SGLANG_OLD: (2.0, math.inf)}
    )

    def add(self, length: Figure, rate: Figure) -> None:
        """One more pair of figures of the same server."""
        for meaning, tokens in ((RATE_SGLANG_NEW, 1), (RATE_SGLANG_OLD, 0)):
            low = max(0.0, length.low - tokens) / rate.high
            high = (length.high - tokens) / rate.low if rate.low > 0 else math.inf
            was = self.bounds[meaning]
            self.bounds[meaning] = (max(was[0], low), min(was[1], high))

    @property
    def possible(self) -> dict[str, tuple[int, float]]:
        """The meanings that a whole number of drafts (or of slots, with the bonus) fits, and its bounds."""
        whole = {name: (math.ceil(low), high) for name, (low, high) in self.bounds.items()}
        return {name: (low, high) for name, (low, high) in whole.items() if low <= high}

    def text(self) -> str:
        """What can be said, in one line."""
        fits = [f"{name} with {_range(*found)} per round" for name, found in self.possible.items()]
        if len(fits) == 1:
            return f"accept rate is {fits[0]}; tau is taken from accept len"
        if not fits:
            return (
                "accept rate fits none of SGLang's definitions at a fixed width; tau is taken from accept len"
            )
        return f"accept rate may be {' or '.join(fits)}; tau is taken from accept len"

    def definition(self) -> str:
        """The definition line of the rate."""
        found = list(self.possible)
        return found[0] if len(found) == 1 else RATE_SGLANG


def _range(low: int, high: float) -> str:
    if math.isinf(high):
        return f"at least {low}"
    return f"{low}" if math.floor(high) == low else f"{low} to {math.floor(high)}"


@dataclass
class Reader:
    """Feed it the lines of a log; `where`: the file."""

    where: str
    _joiner: Joiner = field(default_factory=lambda: Joiner(_ANCHOR, _END, _PIECES))
    _meaning: RateMeaning | None = None
    _rated: str = ""

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """What is known once this line is read."""
        match = _BENCH.match(line)
        if match:
            length = figure("accept length", match[1], LENGTH)
            yield _observed(BENCH, f"{self.where}:{number}", "lifetime", length, None)
        else:
            yield from self._items(self._joiner.feed(number, line))

    @property
    def pending(self) -> bool:
        """Whether a statement is open."""
        return self._joiner.pending

    def finish(self) -> Iterator[Item]:
        """What was still open at the end of the file, and what the rates mean."""
        yield from self._items(self._joiner.flush())
        if self._meaning is not None:
            yield Notice(self._rated, "rate", self._meaning.text())
            self._meaning = None

    def _items(self, statements: Iterator[Statement]) -> Iterator[Item]:
        for statement in statements:
            where = f"{self.where}:{statement.number}"
            length, rate = _LENGTH.search(statement.text), _RATE.search(statement.text)
            if not _END.search(statement.text) or (length is None and "acceptlen" in statement.text):
                yield Notice(where, "partial", "Decode batch line is cut or mixed with another")
            if length is None:
                continue
            found = figure("accept len", length[1], LENGTH)
            printed = figure("accept rate", rate[1], RATE_SGLANG) if rate else None
            if printed is not None:
                self._meaning = self._meaning or RateMeaning()
                self._rated = self._rated or where
                self._meaning.add(found, printed)
            yield _observed(NAME, where, "interval", found, printed)
        for number in self._joiner.lost:
            yield Notice(
                f"{self.where}:{number}", "lost", "accept len without its Decode batch line: not used"
            )
        self._joiner.lost.clear()


def _observed(source: str, where: str, scope: str, length: Figure, rate: Figure | None) -> Observation:
    return Observation(
        source=source,
        where=where,
        scope="interval" if scope == "interval" else "lifetime",
        series="" if scope == "interval" else where,
        definition=TAU_GAUGE,
        length=length,
        stated=(length,) if rate is None else (length, rate),
        contradiction=no_length(length),
        engine="sglang",
    )
