"""vLLM's V0 log line (2024): cumulative since the start, with a rate that is not a prefix rate.

Format: vllm/spec_decode/metrics.py of 0.6. `Number of accepted tokens` counts matches behind the first
mismatch too: τ comes from the emitted tokens. Rounds = draft tokens / speculative tokens, where it divides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from truedraft.measure.sources.definitions import EFFICIENCY_V0, RATE_V0, TAU_V0
from truedraft.measure.sources.lines import Joiner, Statement
from truedraft.measure.sources.observation import Item, Notice, Observation, figure

NAME = "vllm-v0-log"
MARKER = re.compile(r"Speculative metrics|System efficiency|Number of (?:accepted|draft|emitted)")

_ANCHOR = re.compile(r"Speculative\s*metrics:")
_PIECES = re.compile(r"Systemefficiency:|Numberof(?:accepted|draft|emitted)tokens:\d")
_END = re.compile(r"Numberofemittedtokens:\d{1,15}\.(?!\d)")
_WHOLE = re.compile(
    r"Speculativemetrics:Draftacceptancerate:(?P<rate>\d\.\d{1,15}|nan),Systemefficiency:(?P<efficiency>\d\.\d{1,15}|nan),"
    r"Numberofspeculativetokens:(?P<k>\d{1,15}),Numberofacceptedtokens:(?P<accepted>\d{1,15}),"
    r"Numberofdrafttokens:(?P<drafted>\d{1,15}),Numberofemittedtokens:(?P<emitted>\d{1,15})\.(?!\d)"
)


@dataclass
class Reader:
    """Feed it the lines of a log; `where`: the file."""

    where: str
    _joiner: Joiner = field(default_factory=lambda: Joiner(_ANCHOR, _END, _PIECES))

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
            yield from _read(statement, f"{self.where}:{statement.number}", self.where)
        for number in self._joiner.lost:
            yield Notice(f"{self.where}:{number}", "lost", "pieces of a Speculative metrics line: not used")
        self._joiner.lost.clear()


def _read(statement: Statement, where: str, series: str) -> Iterator[Item]:
    match = _WHOLE.match(statement.text)
    if match is None:
        yield Notice(where, "partial", "Speculative metrics line is cut or mixed with another: not used")
        return
    k, drafted, emitted = (int(match[name]) for name in ("k", "drafted", "emitted"))
    stated = [
        figure(name, match[key], definition)
        for name, key, definition in (
            ("draft acceptance rate", "rate", RATE_V0),
            ("system efficiency", "efficiency", EFFICIENCY_V0),
        )
        if match[key] != "nan"
    ]
    rounds = drafted // k if k and drafted % k == 0 else None
    wrong = ""
    if rounds and match["efficiency"] != "nan":
        exact = emitted / (rounds * (k + 1))
        if not stated[-1].low <= exact <= stated[-1].high:
            wrong = (
                f"system efficiency {stated[-1].value:g}, but {emitted} / ({rounds} * {k + 1}) = {exact:.4g}"
            )
    if rounds is not None and emitted < rounds:
        wrong = wrong or f"{emitted} emitted tokens in {rounds} rounds, each of which emits one"
    if rounds is None:
        yield Notice(
            where, "rounds", f"{drafted} draft tokens are no multiple of K = {k}: the rounds are unknown"
        )
    yield Observation(
        source=NAME,
        where=where,
        scope="lifetime",
        series=series,
        definition=TAU_V0,
        rounds=rounds,
        proposed=drafted,
        accepted=None if rounds is None or wrong else emitted - rounds,
        width=k or None,
        stated=tuple(stated),
        contradiction=wrong,
        engine="vllm",
    )
