"""The search: sweep over every candidate, take the best improvement, sweep again around it.

Several conventions can be broken at once, and then what one axis costs depends on the others (behind wrong
taps nothing else matters much). So verdicts are not read off one sweep around the contract: they are given
around the wiring that nothing improves any more. It is found by coordinate ascent in two ways.

`explore` climbs on prompts of its own by what looks better: near the bottom every single step is small, and
to prove each would take more text than there is. `look` proves, on the other prompts: it takes significant
steps only, and an axis that was moved goes back to the contract's value unless that is shown to be worse.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from truedraft.contract import AXES, Contract, InputError, UndecidedError, Value
from truedraft.probe.evidence import Comparison, PromptScores, compare
from truedraft.probe.hypotheses import Doubt, is_leak
from truedraft.probe.rivals import Rivals, comes_first
from truedraft.probe.sample import Sample
from truedraft.probe.wiring import WeightsError, Wired, Wiring
from truedraft.stats import spent

MARGIN = 0.01
"""Nats per draft below which a difference is of no use to anybody: one per cent of a token's probability."""

STEPS = 12
"""Longest ascent; every step settles one fault."""

AGAINST = 0.05
"""One-sided p from which acceptance contradicts what log-probability says."""

PROMISING = 1.5
"""Standard errors by which a step of the exploration must look better."""


@dataclass(frozen=True)
class Judged:
    """A comparison, and what it proves. `p_limit`: the corrected level that it had to reach."""

    comparison: Comparison
    better: bool
    worse: bool
    p_limit: float

    @property
    def settled(self) -> bool:
        """Whether more data would change nothing: worse, better, the same, or too close to matter."""
        return self.better or self.worse or not self.comparison.exercised or self.equal or self.leak

    @property
    def leak(self) -> bool:
        """Clearly better, but with features that drafting does not have: no evidence, however much of it."""
        above = self.comparison.log_q.p_above < self.p_limit
        return above and is_leak(self.comparison.axis, self.comparison.value)

    @property
    def disputed(self) -> bool:
        """Log-probability says one thing significantly, and acceptance the opposite."""
        log_q, accepted = self.comparison.log_q, self.comparison.accepted
        up = log_q.p_above < self.p_limit and accepted.p_below < AGAINST
        return up or (log_q.p_below < self.p_limit and accepted.p_above < AGAINST)

    @property
    def equal(self) -> bool:
        """The difference is known to be smaller than `MARGIN`."""
        interval = self.comparison.log_q.interval()
        return interval is not None and interval[0] > -MARGIN and interval[1] < MARGIN


@dataclass
class Search:
    """One probe's search. `deadline`: `time.monotonic()` after which no further sweep begins.

    `current`: values that differ from the files. `judged`: the last sweep's comparisons by axis and value,
    around `current`. `refused`: candidates that cannot be built, with the reason.
    """

    wiring: Wiring
    sample: Sample
    doubts: Sequence[Doubt]
    alpha: float
    deadline: float
    on_progress: Callable[[int, int], None] | None = None
    current: dict[str, Value] = field(default_factory=dict)
    judged: dict[tuple[str, Value], Judged] = field(default_factory=dict)
    refused: dict[tuple[str, Value], str] = field(default_factory=dict)
    rivals: Rivals = field(default_factory=Rivals)
    sweeps: int = 0
    out_of_time: bool = False

    def __post_init__(self) -> None:
        self._scores: dict[str, PromptScores] = {}
        self._explored: dict[str, Value] = {}
        self.current = self._start()

    def _start(self) -> dict[str, Value]:
        """A first value for every axis that the contract leaves open.

        Raises `InputError` where that has nothing to do with what cannot be built, else `UndecidedError`.
        """
        open_axes = [doubt for doubt in self.doubts if doubt.open]
        error: InputError | None = None
        for values in itertools.islice(itertools.product(*(d.candidates for d in open_axes)), 256):
            changes = {doubt.axis: value for doubt, value in zip(open_axes, values, strict=True)}
            try:
                self.wiring.wire(changes)
            except InputError as refused:
                error = error or refused
                continue
            return changes
        assert error is not None
        if not open_axes or isinstance(error, WeightsError):
            raise error
        raise UndecidedError(
            f"no combination of {', '.join(d.axis for d in open_axes)} can be built: {error}"
        )

    def explore(self) -> None:
        """Climb by what looks better on the current sample. Proves nothing."""
        self._scores.clear()
        for _step in range(STEPS):
            found = [c for c in self._compared(list(self._candidates())) if _promising(c)]
            if not found or self._late():
                return
            step = max(found, key=lambda c: c.log_q.mean)
            self.rivals.remember(step, found)
            self._take(step)
            self._explored = dict(self.current)

    def _take(self, step: Comparison) -> None:
        """Give an axis another value, which may be the contract's own again."""
        own = next((d for d in self.doubts if d.axis == step.axis and not d.open), None)
        if own is not None and own.value == step.value:
            self.current.pop(step.axis, None)
        else:
            self.current[step.axis] = step.value

    def look(self, *, last: bool) -> None:
        """Judge every candidate on the current sample, climb while one is better, undo what is unproven.

        `last`: there will be no more data, so that a step that is not proven now never will be.
        """
        self._scores.clear()
        for _step in range(STEPS):
            if not self._moved(self._sweep(), last) or self._late():
                return

    def _moved(self, better: Comparison | None, last: bool) -> bool:
        """Take a step forward, or one back to what the contract says."""
        if better is not None:
            self._take(better)
        else:
            back = next((d for d in self.doubts if self._is_unproven(d, last)), None)
            if back is not None:
                del self.current[back.axis]
            elif not self._swapped():
                return False
        self.judged.clear()
        return True

    def _swapped(self) -> bool:
        """Move another axis instead of one that was moved, if that is better, or as good and earlier."""
        self.rivals.shown.clear()
        for doubt in self.doubts:
            if doubt.open or doubt.axis not in self.current:
                continue
            rest = {axis: value for axis, value in self.current.items() if axis != doubt.axis}
            for axis, value in self.rivals.steps.get(doubt.axis, ()):
                if axis in self.current or (axis, value) in self.refused:
                    continue
                found = compare(axis, value, self.scores(self.current), self.scores({**rest, axis: value}))
                judged = _judge(found, spent(self.alpha, self.sweeps))
                if judged.better or (judged.equal and comes_first(axis, doubt.axis)):
                    self.rivals.swapped(doubt.axis, self.current[doubt.axis], axis)
                    self.current = {**rest, axis: value}
                    return True
                if not judged.worse:
                    self.rivals.shown.setdefault(doubt.axis, []).append(found)
        return False

    def _is_unproven(self, doubt: Doubt, last: bool) -> bool:
        """Whether the axis was moved, though the contract's value is as good as far as anybody can tell."""
        if doubt.open or doubt.axis not in self.current:
            return False
        judged = self.judged.get((doubt.axis, doubt.value))
        return judged is not None and not judged.worse and (last or judged.settled)

    @property
    def settled(self) -> bool:
        """Whether more data could decide nothing."""
        tried = [self.judged.get((axis, value)) for axis, value in self._candidates()]
        return all(judged is not None and judged.settled for judged in tried)

    def contract(self) -> Contract:
        """The contract of the current wiring."""
        return self.wiring.resolve(self.current).contract

    def scores(self, changes: Mapping[str, Value]) -> PromptScores:
        """A wiring's scores on the current sample. Raises `InputError` where it cannot be built."""
        wired = self.wiring.wire(changes)
        key = wired.contract.hash
        if key not in self._scores:
            self._require_features(wired)
            self._scores[key] = self.sample.scores(wired)
        return self._scores[key]

    def _require_features(self, wired: Wired) -> None:
        for tap in wired.taps:
            if tap not in self.sample.store.taps:
                raise InputError(f"taps.layers: layer {tap[0]} was not captured")

    def _candidates(self) -> Iterator[tuple[str, Value]]:
        """Every axis with every value but its current one, as far as it can be built."""
        contract = self.contract()
        for doubt in self.doubts:
            now = contract.axes[doubt.axis].value
            near = () if doubt.axis == "taps.layers" else AXES[doubt.axis].candidates(contract)
            for value in dict.fromkeys((*doubt.candidates, *near)):
                if value != now and (doubt.axis, value) not in self.refused:
                    yield doubt.axis, value

    def _sweep(self) -> Comparison | None:
        """Compare every candidate that is not settled; the best improvement, if there is one."""
        found = self._compared([key for key in self._candidates() if not self._is_settled(key)])
        self.sweeps += 1
        for comparison, limit in zip(found, self._limits(found), strict=True):
            self.judged[comparison.axis, comparison.value] = _judge(comparison, limit)
        better = [c for c in found if self.judged[c.axis, c.value].better]
        best = max(better, key=lambda c: c.log_q.mean, default=None)
        if best is not None:
            self.rivals.remember(best, better)
        return best

    def _limits(self, found: Sequence[Comparison]) -> list[float]:
        """The p that each comparison has to reach.

        Half of the error is for the steps that exploration took, if any: few, and chosen on other prompts.
        """
        taken = [self._is_confirmation(c) for c in found]
        share = spent(self.alpha, self.sweeps) / (2 if any(taken) else 1)
        few, many = 2 * sum(taken), max(2 * sum(c.exercised for c in found), 1)
        return [share / (few if confirms else many) for confirms in taken]

    def _is_confirmation(self, comparison: Comparison) -> bool:
        """Whether it holds the contract's value against the step that exploration took."""
        axis = comparison.axis
        own = next((d for d in self.doubts if d.axis == axis and not d.open), None)
        kept = axis in self._explored and self.current.get(axis) == self._explored[axis]
        return own is not None and kept and comparison.value == own.value

    def _compared(self, todo: Sequence[tuple[str, Value]]) -> list[Comparison]:
        """Candidates against the current wiring, as far as the time allows."""
        now = self.scores(self.current)
        found: list[Comparison] = []
        for number, (axis, value) in enumerate(todo):
            if self._late():
                break
            try:
                other = self.scores({**self.current, axis: value})
            except InputError as error:
                self.refused[axis, value] = str(error)
                continue
            found.append(compare(axis, value, now, other))
            if self.on_progress is not None:
                self.on_progress(number + 1, len(todo))
        return found

    def _is_settled(self, key: tuple[str, Value]) -> bool:
        return key in self.judged and self.judged[key].settled

    def _late(self) -> bool:
        self.out_of_time = self.out_of_time or time.monotonic() > self.deadline
        return self.out_of_time


def _promising(comparison: Comparison) -> bool:
    log_q = comparison.log_q
    return (
        comparison.exercised
        and not is_leak(comparison.axis, comparison.value)
        and log_q.mean > max(MARGIN, PROMISING * log_q.error)
    )


def _judge(comparison: Comparison, limit: float) -> Judged:
    """Both measures are needed: log-probability significantly, acceptance at least not against it."""
    log_q, accepted = comparison.log_q, comparison.accepted
    better = (
        comparison.exercised
        and not is_leak(comparison.axis, comparison.value)
        and log_q.mean > MARGIN
        and log_q.p_above < limit
        and accepted.p_below >= AGAINST
    )
    worse = comparison.exercised and log_q.p_below < limit and accepted.p_above >= AGAINST
    return Judged(comparison, better, worse, limit)
