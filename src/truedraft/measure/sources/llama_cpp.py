"""llama.cpp: `draft acceptance` per request, `statistics` since the start, the example's `n_drafted` block.

Formats: tools/server (`print_timing`), common/speculative.cpp (`common_speculative_print_stats`) since
ggml-org/llama.cpp#24536; older builds have no length and no positions. With `p_min` drafts differ in length:
the number of rounds follows from the length and the positions (`deduce`), not from the generated drafts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.definitions import LENGTH, RATE, SURVIVAL
from truedraft.measure.sources.lines import Joiner, Statement
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation, figure

NAME = "llama.cpp"
MARKER = re.compile(
    r"draft acceptance|statistics|#(?:gen|acc) |accepted /|n_draft|n_accept|accept  *=|per position"
)

_ANCHOR = re.compile(r"draft\s*acceptance(?:\s*rate)?\s*=|statistics\s+[\w.-]+\s*:\s*#")
_PIECES = re.compile(
    r"\daccepted/\d{1,15}generated|#(?:gen|acc)(?:drafts|tokens)=|acceptancerateperposition="
)
_REQUEST = re.compile(
    r"draftacceptance(?:rate)?=(?P<rate>\d\.\d{3,5}|nan|-nan)"
    r"\((?P<accepted>\d{1,15})accepted/(?P<proposed>\d{1,15})generated\)"
    r"(?:,mean(?:acceptancelength|len)=(?P<length>\d{1,15}\.\d\d)(?!\d)"
    r"(?:,acceptancerateperposition=\((?P<positions>\d\.\d{3}(?:,\d\.\d{3})*)\))?)?"
)
_TOTAL = re.compile(
    r"statistics(?P<kind>[\w.-]+):(?:#calls\([\w,]+\)=\d{1,15},)?#gendrafts=(?P<rounds>\d{1,15}),#accdrafts=(?P<hit>\d{1,15}),"
    r"#gentokens=(?P<proposed>\d{1,15}),#acctokens=(?P<accepted>\d{1,15})(?!\d)"
    r"(?:,#meanacclen=(?P<length>\d{1,15}\.\d\d)(?:,#accrate/pos=\((?P<positions>\d\.\d{3}(?:,\d\.\d{3})*)\))?)?"
)
_END = re.compile(r"(?:perposition|#accrate/pos)=\([\d.,]+\)")
_BLOCK = re.compile(
    r"^\s*(?:[\d.]+ [A-Z] )?(n_drafted|n_accept|accept)\s*=\s*(\d{1,15}$|\d{1,3}\.\d{3}(?=%))%?\s*$"
)


@dataclass
class Reader:
    """Feed it the lines of a log; `where`: the file."""

    where: str
    _block: dict[str, str] = field(default_factory=dict)
    _joiner: Joiner = field(default_factory=lambda: Joiner(_ANCHOR, _END, _PIECES))

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """What is known once this line is read."""
        match = _BLOCK.match(line)
        if match:
            self._block[match[1]] = match[2]
            if match[1] == "accept":
                yield from self._example(number)
            return
        yield from self._items(self._joiner.feed(number, line))

    @property
    def pending(self) -> bool:
        """Whether a statement is open."""
        return self._joiner.pending

    def finish(self) -> Iterator[Item]:
        """What was still open at the end of the file."""
        yield from self._items(self._joiner.flush())
        if self._block:
            yield Notice(self.where, "partial", "n_drafted block is cut: not used")
            self._block.clear()

    def _items(self, statements: Iterator[Statement]) -> Iterator[Item]:
        for statement in statements:
            where = f"{self.where}:{statement.number}"
            total = statement.text.startswith("statistics")
            match = (_TOTAL if total else _REQUEST).match(statement.text)
            rest = "" if match is None else statement.text[match.end() :]
            closed = not rest or rest.startswith((",dur(", "`"))
            if match is None or (total and (not closed or (not rest and statement.goes_on))):
                yield Notice(where, "partial", "draft acceptance line is cut or mixed with another: not used")
                continue
            if not closed:
                yield Notice(where, "partial", "draft acceptance line is cut or mixed with another")
            whole = closed or rest[0] == ","  # else the last number may go on in what follows
            yield from _total(match, where, self.where) if total else _request(match, where, whole)
        for number in self._joiner.lost:
            yield Notice(f"{self.where}:{number}", "lost", "pieces of a draft acceptance line: not used")
        self._joiner.lost.clear()

    def _example(self, number: int) -> Iterator[Item]:
        where, block = f"{self.where}:{number}", dict(self._block)
        self._block.clear()
        if not {"n_drafted", "n_accept"} <= set(block) or "." in block["n_drafted"] + block["n_accept"]:
            yield Notice(where, "partial", "n_drafted block is cut: not used")
            return
        rate = figure("accept", block["accept"], RATE, 0.01)
        yield settled(
            Observation(
                source=NAME,
                where=where,
                scope="run",
                proposed=int(block["n_drafted"]),
                accepted=int(block["n_accept"]),
                stated=(rate,),
                engine="llama.cpp",
            ),
            rate,
        )


def _figures(match: re.Match[str]) -> tuple[Figure | None, tuple[Figure, ...]]:
    length = figure("mean acceptance length", match["length"], LENGTH) if match["length"] else None
    positions = match["positions"].split(",") if match["positions"] else []
    return length, tuple(figure(f"survival[{i}]", text, SURVIVAL) for i, text in enumerate(positions))


def _request(match: re.Match[str], where: str, whole: bool) -> Iterator[Item]:
    length, shares = _figures(match)
    length = length if whole or shares else None
    rate = None if "nan" in match["rate"] else figure("draft acceptance", match["rate"], RATE)
    yield settled(
        Observation(
            source=NAME,
            where=where,
            scope="request",
            proposed=int(match["proposed"]),
            accepted=int(match["accepted"]),
            survival=shares,
            width=len(shares) or None,
            length=length,
            stated=tuple(f for f in (length, rate) if f is not None),
            engine="llama.cpp",
        ),
        rate,
    )


def _total(match: re.Match[str], where: str, series: str) -> Iterator[Item]:
    length, shares = _figures(match)
    kind, rounds, hit = match["kind"], int(match["rounds"]), int(match["hit"])
    yield settled(
        Observation(
            source=NAME,
            where=where,
            scope="lifetime",
            population=kind,
            series=f"{series}#{kind}",
            rounds=rounds,
            proposed=int(match["proposed"]),
            accepted=int(match["accepted"]),
            reached=() if shares else (hit,),
            survival=shares,
            width=len(shares) or None,
            length=length,
            stated=() if length is None else (length,),
            engine="llama.cpp",
        )
    )
