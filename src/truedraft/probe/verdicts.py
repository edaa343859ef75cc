"""From the end of a search to a verdict per axis, with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from truedraft.contract import Contract, Value, format_value, to_json
from truedraft.probe.evidence import SAME, Comparison, PromptScores, compare, first_draft, mean_tau
from truedraft.probe.hypotheses import Doubt, is_leak
from truedraft.probe.search import MARGIN, Judged, Search
from truedraft.stats import Estimate

Verdict: TypeAlias = Literal["supported", "contradicted", "undecided", "not exercised"]
Standing: TypeAlias = Literal[
    "value", "best", "worse", "equal", "unclear", "same", "more information", "impossible", "not tried"
]

WORKING = 0.05
"""Least share of right first drafts under the best wiring for which any verdict is given."""

DEAD = (
    "the drafter gives every true token the same probability, as if its weights were zeros or its numbers "
    "overflowed: look at its weights and at the scales that were set"
)
"""Then nothing depends on any axis, and that says nothing of them."""


@dataclass(frozen=True)
class Candidate:
    """One value of an axis. All other axes have the values that the search ended with.

    `tau`: its own. `log_q`, `accepted`: difference to the contract's value (to the best one where the
    contract has none), in nats per draft and in drafts per round; `None` if it could not be tried. `why`: for
    `impossible`, what refused it.
    """

    value: Value
    standing: Standing
    tau: Estimate | None = None
    log_q: Estimate | None = None
    accepted: Estimate | None = None
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """One entry of `candidates` in `truedraft probe --json`."""
        out: dict[str, Any] = {"value": to_json(self.value), "standing": self.standing}
        out["tau"] = None if self.tau is None else self.tau.mean
        out["interval"] = None if self.tau is None else _listed(self.tau)
        out["log_prob_difference"] = None if self.log_q is None else self.log_q.mean
        out["log_prob_interval"] = None if self.log_q is None else _listed(self.log_q)
        out["accepted_difference"] = None if self.accepted is None else self.accepted.mean
        out["accepted_interval"] = None if self.accepted is None else _listed(self.accepted)
        if self.why:
            out["why"] = self.why
        return out


def _listed(estimate: Estimate) -> list[float] | None:
    interval = estimate.interval()
    return None if interval is None else list(interval)


@dataclass(frozen=True)
class AxisVerdict:
    """What the weights say of one axis.

    `value`: the contract's, `None` with `open` where it has none. `best`: the value that nothing beats.
    `reason`: one line: the evidence, or what would decide.
    """

    axis: str
    verdict: Verdict
    value: Value
    open: bool
    best: Value
    reason: str
    candidates: tuple[Candidate, ...]

    @property
    def loss(self) -> float:
        """Accepted drafts per round that the contract's value costs against the best one; 0 if unknown."""
        best = next((c for c in self.candidates if c.value == self.best and c.accepted is not None), None)
        return 0.0 if best is None or best.accepted is None else best.accepted.mean

    def to_json(self) -> dict[str, Any]:
        """The axis's object in `truedraft probe --json`; `value` is null where the contract has none."""
        return {
            "verdict": self.verdict,
            "value": None if self.open else to_json(self.value),
            "known": not self.open,
            "best": to_json(self.best),
            "reason": self.reason,
            "candidates": [candidate.to_json() for candidate in self.candidates],
        }


def verdicts(search: Search) -> tuple[AxisVerdict, ...]:
    """One verdict per doubted axis, in the order of the doubts."""
    contract = search.contract()
    idle = idleness(search.scores(search.current))
    return tuple(
        _verdict(search, doubt, contract, idle) for doubt in search.doubts if _is_question(search, doubt)
    )


def idleness(scores: PromptScores) -> str:
    """Why the best wiring's drafts prove nothing; empty if they do."""
    working = first_draft(scores)
    interval = working.interval()
    laws = [float(extreme) for s in scores for extreme in (s.log_q.min(), s.log_q.max())]
    if max(laws) - min(laws) < SAME:
        return DEAD
    if interval is None:
        return "one prompt has no spread to judge by: give at least 2, better 8, that differ"
    if working.mean < WORKING:
        return (
            f"no wiring that was tried gets enough first drafts right to judge by ({working.mean:.1%}): an "
            "untrained drafter, another target, text unlike its training, or a fault elsewhere"
        )
    if interval[0] < WORKING:
        anchors = sum(len(s.hits) for s in scores)
        return (
            f"{anchors} anchors in {working.units} prompts are too few to see that the drafter works at all "
            f"({working.mean:.0%} of the first drafts are right [{interval[0]:.0%}, {interval[1]:.0%}])"
        )
    return ""


def _is_question(search: Search, doubt: Doubt) -> bool:
    """Whether the tensors leave the axis a choice at all; an axis that was asked for is answered anyway."""
    others = [value for value in doubt.candidates if (doubt.axis, value) not in search.refused]
    return doubt.open or doubt.named or len(others) > 1


def _verdict(search: Search, doubt: Doubt, contract: Contract, idle: str) -> AxisVerdict:
    best = contract.axes[doubt.axis].value
    judged = {value: j for (axis, value), j in search.judged.items() if axis == doubt.axis}
    refused = {value: why for (axis, value), why in search.refused.items() if axis == doubt.axis}
    origin = best if doubt.open else doubt.value
    values = tuple(dict.fromkeys((*doubt.candidates, best, *judged, *refused)))
    candidates = tuple(_candidate(search, doubt, v, origin, best, judged, refused) for v in values)
    verdict, reason = _reason(search, doubt, best, judged, idle)
    return AxisVerdict(doubt.axis, verdict, doubt.value, doubt.open, best, reason, candidates)


def _candidate(
    search: Search,
    doubt: Doubt,
    value: Value,
    origin: Value,
    best: Value,
    judged: dict[Value, Judged],
    refused: dict[Value, str],
) -> Candidate:
    if value in refused:
        return Candidate(value, "impossible", why=refused[value])
    if value != best and value not in judged:
        return Candidate(value, "not tried")
    found = judged.get(value)
    log_q = accepted = None
    if origin == best:
        tau = mean_tau(search.scores(search.current)) if found is None else found.comparison.tau
        if found is not None:
            log_q, accepted = found.comparison.log_q, found.comparison.accepted
    else:  # the contract's value was beaten: differences are to it all the same
        again = _against(search, doubt.axis, origin, value)
        tau, log_q, accepted = again.tau, again.log_q, again.accepted
    standing: Standing = "best" if value == best else _standing(found, doubt.axis, value)
    if value == origin and origin == best:
        standing = "value"
    return Candidate(value, standing, tau, log_q, accepted)


def _against(search: Search, axis: str, origin: Value, value: Value) -> Comparison:
    rest = {name: v for name, v in search.current.items() if name != axis}
    return compare(axis, value, search.scores({**rest, axis: origin}), search.scores({**rest, axis: value}))


def _standing(judged: Judged | None, axis: str, value: Value) -> Standing:
    assert judged is not None
    if not judged.comparison.exercised:
        return "same"
    if judged.worse:
        return "worse"
    if is_leak(axis, value):
        return "more information"
    return "equal" if judged.equal else "unclear"


def _reason(
    search: Search, doubt: Doubt, best: Value, judged: dict[Value, Judged], idle: str
) -> tuple[Verdict, str]:
    exercised = {value: j for value, j in judged.items() if j.comparison.exercised}
    if judged and not exercised and idle != DEAD:
        return "not exercised", _unseen(search, doubt, best)
    if search.out_of_time and not judged:
        return "undecided", "the time ran out before any other value was tried"
    if idle:
        return "undecided", idle
    if not doubt.open and best != doubt.value:
        instead = "".join(
            f"; or it is {c.axis}={format_value(c.value)} instead, as good an explanation ({_nats(c.log_q)})"
            for c in search.rivals.shown.get(doubt.axis, ())
        )
        return "contradicted", f"{format_value(best)} is better: {_gain(search, doubt, best)}{instead}"
    if not judged:
        refused = [why for (axis, _), why in search.refused.items() if axis == doubt.axis]
        return "undecided", f"no other value can be built: {refused[0]}" if refused else "the time ran out"
    rivals = {value: j for value, j in exercised.items() if not j.worse}
    if not rivals:
        if search.out_of_time and any(v not in judged and v != best for v in doubt.candidates):
            return "undecided", "the time ran out before every value was tried"
        if is_leak(doubt.axis, best):
            return "undecided", (
                f"{format_value(best)} shows the drafter more than drafting has, so that doing better "
                "with it is no evidence"
            )
        count = f"{len(exercised)} other value{'s' if len(exercised) > 1 else ''}"
        return "supported", f"better than {count}, the closest by {_closest(exercised)}"
    return "undecided", _open_questions(doubt.axis, rivals)


def _open_questions(axis: str, rivals: dict[Value, Judged]) -> str:
    alike = [value for value, j in rivals.items() if j.equal and not is_leak(axis, value)]
    parts = [_open_question(axis, value, j) for value, j in rivals.items() if value not in alike]
    if alike:
        behind = (
            "; what slots behind those were trained for cannot be seen" if axis == "block.proposals" else ""
        )
        verb = "differs" if len(alike) == 1 else "differ"
        listed = ", ".join(map(format_value, alike[:3])) + (", …" if len(alike) > 3 else "")
        parts.append(f"{listed} {verb} by less than {MARGIN:g} nats per draft, too little to matter{behind}")
    return "; ".join(parts[:3])


def _gain(search: Search, doubt: Doubt, best: Value) -> str:
    found = _against(search, doubt.axis, doubt.value, best)
    return f"{_nats(found.log_q)}, {found.accepted.mean:+.2f} drafts per round"


def _nats(estimate: Estimate) -> str:
    interval = estimate.interval()
    reach = "" if interval is None else f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    return f"{estimate.mean:+.3f}{reach} nats per draft"


def _closest(exercised: dict[Value, Judged]) -> str:
    value, judged = max(exercised.items(), key=lambda item: item[1].comparison.log_q.mean)
    return f"{-judged.comparison.log_q.mean:.3f} nats per draft ({format_value(value)})"


def _open_question(axis: str, value: Value, judged: Judged) -> str:
    text, log_q = format_value(value), judged.comparison.log_q
    if is_leak(axis, value):
        return f"{text} shows the drafter more than drafting has ({_nats(log_q)}): no evidence"
    if judged.disputed:
        drafts = f"{judged.comparison.accepted.mean:+.2f} drafts per round"
        return f"{text} differs by {_nats(log_q)}, but by {drafts}: the measures disagree"
    needed = log_q.units_needed(judged.p_limit)
    more = (
        f"about {needed} prompts would decide"
        if needed and needed > log_q.units
        else "more prompts would decide"
    )
    return f"{text} differs by {_nats(log_q)} over {log_q.units} prompts; {more}"


def _unseen(search: Search, doubt: Doubt, best: Value) -> str:
    reach = search.sample.reach
    if doubt.axis in ("attention.window", "attention.window_rule"):
        windows = [w for w in search.contract().tuple_of("attention.window") if isinstance(w, int)]
        if not windows and doubt.axis == "attention.window_rule":
            return "no layer has a window"
        if not windows:
            return f"no context longer than the smallest window that was tried (longest: {reach} tokens)"
        if reach <= min(windows):
            return f"no context longer than the window (longest: {reach}, window: {min(windows)} tokens)"
    if doubt.axis == "rope.scaling":
        return "no position that the scaling changes"
    return "no draft depends on it"


def decided(found: Sequence[AxisVerdict]) -> bool:
    """Whether anything was decided at all."""
    return any(verdict.verdict in ("supported", "contradicted") for verdict in found)
