"""`Observation`: what one line, counter set or response of some engine says about acceptance.

Counts are whole numbers that the source states, or that are the only ones which agree with everything it
states (`derived`). Rounded figures stay `Figure`s with their precision. What is not known is `None` or empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from truedraft.contract import AcceptanceRecord
from truedraft.measure.sources.definitions import TAU_ENGINE

Scope = Literal["request", "run", "difference", "interval", "lifetime"]
"""What the figures cover: one request, one benchmark, the time between two scrapes, the time since the
previous log line, or everything since the server started (warm-up and other people's traffic included)."""

SCOPES: tuple[Scope, ...] = ("request", "run", "difference", "interval", "lifetime")
"""Best first. Figures of different scopes may cover the same rounds and are never added up."""

EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as printed. `step`: distance of neighbouring printed values, 0 where nothing was rounded."""

    name: str
    value: float
    step: float
    definition: str

    @property
    def low(self) -> float:
        """Smallest number that is printed so."""
        return self.value - self.step / 2 - EPSILON

    @property
    def high(self) -> float:
        """Largest number that is printed so."""
        return self.value + self.step / 2 + EPSILON


def figure(name: str, text: str, definition: str, scale: float = 1.0) -> Figure:
    """A figure from its printed digits: `2.93` is known to a step of 0.01. `scale`: 0.01 for percentages."""
    exponent = Decimal(text).as_tuple().exponent
    step = 10.0**exponent if isinstance(exponent, int) else 0.0
    return Figure(name, float(text) * scale, scale * step, definition)


@dataclass(frozen=True, slots=True)
class Request:
    """What a source tells of one request beside acceptance. `None` and empty: it does not tell."""

    request_id: str = ""
    prompt_id: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    started: float = 0.0
    category: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One statement about acceptance.

    `where`: file and line. `population`: what must not be pooled with anything else (a model, an
    implementation). `series`: of cumulative figures, whose later statement replaces the earlier one.
    `rounds_between`: smallest and largest number of rounds that agree with the rounded figures, where
    `rounds` is not known. `reached[i]`: rounds that accepted at least i + 1 drafts. `survival`: the same as
    printed shares. `width`: K, the most drafts per round. `table`: (proposed, accepted, rounds).
    `contradiction`: the source's own figures exclude each other; it is then shown and not pooled.
    """

    source: str
    where: str
    scope: Scope
    population: str = ""
    series: str = ""
    definition: str = TAU_ENGINE
    rounds: int | None = None
    rounds_between: tuple[int, int] | None = None
    proposed: int | None = None
    accepted: int | None = None
    reached: tuple[int, ...] = ()
    survival: tuple[Figure, ...] = ()
    width: int | None = None
    table: tuple[tuple[int, int, int], ...] = ()
    length: Figure | None = None
    stated: tuple[Figure, ...] = ()
    request: Request = field(default_factory=Request)
    record: AcceptanceRecord | None = None
    derived: bool = False
    contradiction: str = ""
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the reader of the figures must know. Notices of one `kind` are counted together."""

    where: str
    kind: str
    text: str


Item = Observation | Notice
