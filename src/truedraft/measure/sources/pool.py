"""Pooled figures of observations that mean the same: one definition, one scope, one population."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from truedraft.contract import acceptance_of
from truedraft.measure.sources.definitions import MEAN_OF_INTERVALS
from truedraft.measure.sources.observation import Figure, Observation
from truedraft.measure.sources.pooled import Pooled

UNKNOWN = 10**9
"""Positions of an observation that knows all of its own: it accepted nothing behind them."""

MOST_SHOWN = 8


WIDEST = 0.05
"""Bounds further apart than this have no middle worth printing."""


def _middle(bounds: tuple[float, float]) -> float | None:
    return sum(bounds) / 2 if bounds[1] - bounds[0] <= WIDEST else None


@dataclass
class Pool:
    """Adds observations up; keeps sums, not the observations."""

    definition: str
    observations: int = 0
    left_out: int = 0
    widths: set[int] = field(default_factory=set)
    shown: list[Observation] = field(default_factory=list)
    _low: int = 0
    _high: int = 0
    _accepted: int = 0
    _proposed: int | None = 0
    _derived: bool = False
    _rounded: bool = False
    _full: bool = True
    _known: int = UNKNOWN
    _reached: list[float] = field(default_factory=list)
    _table: Counter[tuple[int, int]] | None = field(default_factory=Counter)
    _nodes: int = 0
    _counted: int = 0
    _rates: tuple[int, int] = (0, 0)
    _rated: int = 0
    _lengths: list[float] = field(default_factory=list)

    def add(self, seen: Observation) -> None:
        """One more observation that contradicts nothing."""
        self.observations += 1
        if len(self.shown) < MOST_SHOWN:
            self.shown.append(seen)
        if seen.width:
            self.widths.add(seen.width)
        if seen.proposed is not None and seen.accepted is not None:
            self._rated += 1
            self._rates = (self._rates[0] + seen.proposed, self._rates[1] + seen.accepted)
        bounds = (seen.rounds, seen.rounds) if seen.rounds is not None else seen.rounds_between
        if bounds is not None and seen.accepted is not None:
            self._count(seen, bounds[0], bounds[1], seen.accepted)
        elif seen.length is not None:
            low, high = seen.length.low, seen.length.high
            was = self._lengths or [low, high, 0.0, 0.0]
            self._lengths = [min(was[0], low), max(was[1], high), was[2] + seen.length.value, was[3] + 1]
            self.left_out += 1
        else:
            self.left_out += 1

    def _count(self, seen: Observation, low: int, high: int, accepted: int) -> None:
        self._counted += 1
        self._low, self._high, self._accepted = self._low + low, self._high + high, self._accepted + accepted
        self._derived = self._derived or seen.derived
        self._nodes += sum(seen.record.nodes) if seen.record is not None else 0
        if self._proposed is not None:
            self._proposed = None if seen.proposed is None else self._proposed + seen.proposed
        k = seen.width
        self._full = self._full and bool(k and seen.proposed and low <= seen.proposed / k <= high)
        if self._table is not None and (seen.table or not high):
            for most, taken, rounds in seen.table:
                self._table[most, taken] += rounds
        else:
            self._table = None
        reached: list[float] = list(seen.reached)
        if not reached and seen.survival:
            reached, self._rounded = [share.value * (low + high) / 2 for share in seen.survival], True
        if high and (k is None or len(reached) < k):  # what it knows is a beginning
            self._known = min(self._known, len(reached))
        self._reached += [0.0] * (len(reached) - len(self._reached))
        for i, count in enumerate(reached):
            self._reached[i] += count

    @property
    def informative(self) -> bool:
        """Whether the pool says anything about τ."""
        return bool(self._high or self._lengths)

    def pooled(self) -> Pooled:
        """The figures of everything added so far."""
        if not self._counted:
            return self._printed()
        exact = self._low == self._high
        if self._table is not None and exact and self._low:
            figures = acceptance_of(self._table, self._nodes)
            survival, conditional = figures.survival, figures.conditional
        else:
            survival = self._survival()
            conditional = self._conditional(survival)
        between = (
            None
            if exact or not self._low
            else (1 + self._accepted / self._high, 1 + self._accepted / self._low)
        )
        tau = 1 + self._accepted / self._low if exact and self._low else None
        return Pooled(
            definition=self.definition,
            basis="bounds" if not exact else "derived" if self._derived else "counts",
            tau=tau if between is None else _middle(between),
            tau_between=between,
            rounds=self._low if exact else None,
            rounds_between=None if exact else (self._low, self._high),
            proposed=self._proposed,
            accepted=self._accepted,
            survival=survival,
            conditional=conditional,
        )

    def _survival(self) -> tuple[float, ...]:
        rounds = (self._low + self._high) / 2
        if not rounds:
            return ()
        shares = [count / rounds for count in self._reached[: self._known]]
        exact = not self._rounded and self._low == self._high
        return tuple(shares if exact else (round(share, 3) for share in shares))

    def _conditional(self, survival: tuple[float, ...]) -> tuple[float | None, ...]:
        """Ratios of survival: right only where every round proposed all positions."""
        if not self._full or len(self.widths) != 1:
            return ()
        ratios = [b / a if a else None for a, b in zip((1.0, *survival), survival, strict=False)]
        inexact = self._rounded or self._low != self._high
        return tuple(round(r, 2) if r is not None and inexact else r for r in ratios)

    def _printed(self) -> Pooled:
        """Only what every observation tells: a figure of some of them is not one of all."""
        lengths = self._lengths if self._lengths and self._lengths[3] == self.observations else None
        one = lengths is not None and self.observations == 1
        shares = self.shown[0].survival if one else ()
        proposed, accepted = (
            self._rates if self._rates[0] and self._rated == self.observations else (None, None)
        )
        return Pooled(
            definition=self.definition,
            basis="printed",
            tau=lengths[2] if lengths is not None and one else None,
            tau_between=None if lengths is None else (lengths[0], lengths[1]),
            rounds=None,
            rounds_between=None,
            proposed=proposed,
            accepted=accepted,
            survival=tuple(share.value for share in shares),
            conditional=(),
        )

    def mean_of_lengths(self) -> Figure | None:
        """The unweighted mean of several lengths without rounds: no τ, but what the log shows on average."""
        if self._counted or not self._lengths or self._lengths[3] < 2:
            return None
        return Figure("mean of intervals", self._lengths[2] / self._lengths[3], 0.0, MEAN_OF_INTERVALS)
