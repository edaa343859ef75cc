"""Tables that vLLM prints at the end of a run: `vllm bench serve`, and the offline example `spec_decode.py`.

Formats: vllm/benchmarks/serve.py (`process_metrics`), examples/offline_inference/spec_decode.py. Both print
the counts; shares per position are rounded, and the example's once began with the bonus token's slot (1.00).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from truedraft.measure.sources.agree import implied_figure, settled
from truedraft.measure.sources.definitions import LENGTH, RATE, SURVIVAL
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation, figure

NAME = "vllm-bench"
EXAMPLE = "vllm-example"
MARKER = re.compile(
    r"^\s*(?:Acceptance (?:rate|length)|Drafts:|Draft tokens:|Accepted tokens:|Per-position acceptance \(|"
    r"Position \d|num_drafts:|num_draft_tokens:|num_accepted_tokens:|mean acceptance length:|"
    r"acceptance at token)"
)

_NUMBER = r"(\d{1,15}\.\d\d|nan)"
_COUNT, _PLACE = r"(\d{1,15})", r"(\d{1,4})"
_BENCH = {
    "rate": re.compile(rf"\s*Acceptance rate \(%\):\s+{_NUMBER}\s*$"),
    "length": re.compile(rf"\s*Acceptance length:\s+{_NUMBER}\s*$"),
    "drafts": re.compile(rf"\s*Drafts:\s+{_COUNT}\s*$"),
    "proposed": re.compile(rf"\s*Draft tokens:\s+{_COUNT}\s*$"),
    "accepted": re.compile(rf"\s*Accepted tokens:\s+{_COUNT}\s*$"),
    "head": re.compile(r"\s*Per-position acceptance \(%\):()\s*(?:N/A)?\s*$"),
    "position": re.compile(rf"\s*Position {_PLACE}:\s+{_NUMBER}\s*$"),
}
_EXAMPLE = {
    "drafts": re.compile(rf"\s*num_drafts:\s*{_COUNT}\s*$"),
    "proposed": re.compile(rf"\s*num_draft_tokens:\s*{_COUNT}\s*$"),
    "accepted": re.compile(rf"\s*num_accepted_tokens:\s*{_COUNT}\s*$"),
    "length": re.compile(rf"\s*mean acceptance length:\s*{_NUMBER}\s*$"),
    "position": re.compile(rf"\s*acceptance at token {_PLACE}:\s*{_NUMBER}\s*$"),
}
_ORDER = {
    NAME: ("rate", "length", "drafts", "proposed", "accepted", "head"),
    EXAMPLE: ("drafts", "proposed", "accepted", "length"),
}
"""Lines of a table; positions follow. A line out of place belongs to another table, or its own is cut."""

_FIRST = {NAME: ("rate", "length", "drafts"), EXAMPLE: ("drafts", "length")}
"""Lines that a table, or what somebody quotes of it, begins with."""


@dataclass
class Reader:
    """Feed it the lines of a text; `where`: the file."""

    where: str
    _kind: str = ""
    _number: int = 0
    _place: int = 0
    _found: dict[str, str] = field(default_factory=dict)
    _positions: dict[int, str] = field(default_factory=dict)

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """What is known once this line is read."""
        for kind, fields in ((NAME, _BENCH), (EXAMPLE, _EXAMPLE)):
            for name, pattern in fields.items():
                match = pattern.match(line)
                if match:
                    yield from self._take(kind, name, match, number)
                    return
        if MARKER.match(line):
            yield from self.finish()
            yield Notice(f"{self.where}:{number}", "partial", "a line of a summary is cut: not used")

    def _take(self, kind: str, name: str, match: re.Match[str], number: int) -> Iterator[Item]:
        order = _ORDER[kind]
        place = len(order) + int(match[1]) if name == "position" else order.index(name)
        if self._kind and (kind != self._kind or place != self._place + 1):
            yield from self.finish()
        if not self._kind:
            self._kind, self._number = kind, number
        self._place = place
        if name == "position":
            self._positions[int(match[1])] = match[2]
        else:
            self._found[name] = match[1]

    @property
    def pending(self) -> bool:
        """Whether a table is open."""
        return bool(self._kind)

    def finish(self) -> Iterator[Item]:
        """The table that was open, if any."""
        where = f"{self.where}:{self._number}"
        if self._kind == EXAMPLE and self._place < len(_ORDER[EXAMPLE]) - 1:
            self._found.popitem()  # a count that no length follows: the text broke off in or behind it
        if self._kind and next(iter(self._found), "") in _FIRST[self._kind]:
            yield from _table(self._kind, where, self._found, self._positions)
        elif self._kind:
            yield Notice(where, "lost", "pieces of a summary without its beginning: not used")
        self._kind, self._found, self._positions = "", {}, {}


def _table(kind: str, where: str, found: dict[str, str], positions: dict[int, str]) -> Iterator[Item]:
    percent = 0.01 if kind == NAME else 1.0
    counts = {name: int(found[name]) for name in ("drafts", "proposed", "accepted") if name in found}
    missing = [name for name in ("drafts", "proposed", "accepted", "length") if name not in found]
    if missing and (kind == EXAMPLE or counts):
        yield Notice(where, "partial", f"a summary is cut; missing: {', '.join(missing)}")
    run = 0
    while run in positions and positions[run] != "nan":
        run += 1
    if run < len(positions):
        yield Notice(where, "partial", f"a summary is cut; acceptance at position {run} is missing")
    shares = tuple(figure(f"survival[{i}]", positions[i], SURVIVAL, percent) for i in range(run))
    length = rate = None
    if found.get("length", "nan") != "nan":
        length = figure("mean acceptance length", found["length"], LENGTH)
    if found.get("rate", "nan") != "nan":
        rate = figure("draft acceptance rate", found["rate"], RATE, 0.01)
    if length is not None and _begins_with_bonus(length, shares):
        shares = tuple(replace(share, name=f"survival[{i}]") for i, share in enumerate(shares[1:]))
    rounds, proposed = counts.get("drafts"), counts.get("proposed")
    width = len(shares) or None
    if rounds and proposed and (least := -(-proposed // rounds)) > len(shares):
        if shares:
            yield Notice(
                where, "partial", f"acceptance at {len(shares)} of at least {least} positions is stated"
            )
        width = None if proposed % rounds else least
    seen = Observation(
        source=kind,
        where=where,
        scope="run",
        rounds=rounds,
        proposed=proposed,
        accepted=counts.get("accepted"),
        survival=shares,
        width=width,
        length=length,
        stated=tuple(f for f in (length, rate) if f is not None)
        + (() if counts else implied_figure(length, rate)),
        engine="vllm",
    )
    yield settled(seen, rate)


def _begins_with_bonus(length: Figure, shares: tuple[Figure, ...]) -> bool:
    """Whether the first share is the bonus token's, always 1: then they sum to τ, not to τ - 1."""
    low, high = sum(share.low for share in shares), sum(share.high for share in shares)
    if not shares or shares[0].value != 1.0 or not (low <= length.high and length.low <= high):
        return False
    return not (1 + low <= length.high and length.low <= 1 + high)
