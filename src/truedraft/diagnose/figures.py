"""Evidence from figures: the curve over the slots, the distance from what is expected, facts as stated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import numpy as np

from truedraft.contract import InputError
from truedraft.diagnose.catalogue import PUBLISHED_ROUNDS, Catalogue
from truedraft.diagnose.curve import shape_weights
from truedraft.diagnose.infer import Evidence, answered

STATED = "--fact"
"""Where an observation comes from that somebody states."""

DEAD_TAU = 1.1
"""Acceptance length up to which the first draft cannot be accepted more often than one round in ten."""

CLUSTERED = 3.0
"""Variance of accepted drafts per round, relative to independent rounds, where prompts are not known."""

BOUNDS = {"dead": (-math.inf, 0.1), "large": (0.1, 0.75), "small": (0.75, 0.98), "none": (0.98, 1.02)}
"""Answers of `loss` by (accepted per round) / (expected); beyond the last: above."""


@dataclass(frozen=True)
class Measured:
    """τ with the standard error of accepted drafts per round, and the curve. `rounds`: `None` if not known.

    `survival[i]`: share of rounds that accepted at least i + 1 drafts; empty if not known. `k`: drafts asked
    for. `conditional[i]`: of the rounds that proposed draft i and accepted all before it, the share that
    accepted it; empty where every round proposed the same number, or nobody knows.
    """

    tau: float
    where: str
    rounds: int | None = None
    survival: Sequence[float] = ()
    k: int | None = None
    conditional: Sequence[float] = ()

    @property
    def error(self) -> float:
        """Standard error of τ: from the curve's variance, or a twentieth of the accepted drafts."""
        if not self.rounds or not self.survival:
            return max(0.05 * (self.tau - 1), 0.01)
        mean = sum(self.survival)
        square = sum((2 * i + 1) * share for i, share in enumerate(self.survival))
        return math.sqrt(CLUSTERED * max(square - mean**2, 0.01) / self.rounds)


def of_curve(catalogue: Catalogue, seen: Measured) -> list[Evidence]:
    """Evidence of the shape, or of a τ so low that no shape is needed."""
    question = catalogue.questions["curve"]
    if seen.survival:
        rounds = seen.rounds or PUBLISHED_ROUNDS
        before = (1.0, *seen.survival)
        ratios = list(seen.conditional) or [b / a for a, b in zip(before, seen.survival, strict=False) if a]
        reached = list(accumulate(seen.conditional, mul)) or seen.survival
        weights = shape_weights(rounds, [round(share * rounds) for share in reached])
        text = (
            f"{_name(weights)}: accepted {_listed(seen.survival)}, conditional {_listed(ratios)}"
            f" over {seen.rounds if seen.rounds else 'an unknown number of'} rounds"
        )
        if weights:
            return [answered(catalogue, question, weights, text, seen.where)]
    if seen.tau <= DEAD_TAU:
        text = (
            f"dead: τ {seen.tau:.2f}, so the first draft is accepted in {seen.tau - 1:.0%} of rounds at most"
        )
        return [answered(catalogue, question, {"dead": 0.95, "saturated": 0.05}, text, seen.where)]
    return []


def _name(weights: Mapping[str, float]) -> str:
    named = sorted(((share, name) for name, share in weights.items() if share >= 0.2), reverse=True)
    return " or ".join(name for _, name in named[:2])


def _listed(shares: Sequence[float]) -> str:
    shown = " ".join(f"{share:.2f}" for share in shares[:8])
    return shown + (" …" if len(shares) > 8 else "")


def of_expectation(catalogue: Catalogue, seen: Measured, expected: Measured) -> list[Evidence]:
    """Evidence of the share of accepted drafts that is left of those expected."""
    if expected.tau - 1 < 0.05:
        return []
    random = np.random.default_rng(0)
    above = seen.tau - 1 + seen.error * random.standard_normal(2000)
    below = expected.tau - 1 + expected.error * random.standard_normal(2000)
    ratio = above / np.maximum(below, 0.01)
    weights = {name: float(np.mean((ratio >= low) & (ratio < high))) for name, (low, high) in BOUNDS.items()}
    weights["above"] = float(np.mean(ratio >= 1.02))
    # Answers of different width: the density counts, not the mass (`none` is 4 % wide).
    widths = {"dead": 0.1, "large": 0.65, "small": 0.23, "none": 0.04, "above": 0.23}
    density = {name: weight / widths[name] for name, weight in weights.items()}
    left = (seen.tau - 1) / (expected.tau - 1)
    text = (
        f"{max(density, key=lambda name: density[name])}: τ {seen.tau:.2f} of {expected.tau:.2f} expected, "
        f"{left:.0%} of the accepted drafts"
    )
    return [
        answered(catalogue, catalogue.questions["loss"], density, text, f"{seen.where}, {expected.where}")
    ]


def of_definition(catalogue: Catalogue, seen: Measured, expected: Measured) -> list[Evidence]:
    """Evidence of counts on both sides of a comparison: then the figures are what they are taken for."""
    if not seen.rounds or not expected.rounds:
        return []
    text = f"as-defined: 1 + accepted drafts / rounds, {seen.rounds} rounds against {expected.rounds}"
    question = catalogue.questions["figure"]
    return [answered(catalogue, question, {"as-defined": 0.97, "misread": 0.03}, text, seen.where)]


NAMED_BY_WIDTH, WIDTH_BY_CHANCE = 0.5, 0.03
"""P(figures imply more drafts than were trained | they are misread, or were asked for), | something else)."""


def of_width(catalogue: Catalogue, text: str, where: str) -> Evidence:
    """Evidence of a rate and a length that imply more drafts per round than the drafter was trained for."""
    able = ("too-many-drafts", "misread")
    likelihood = {name: NAMED_BY_WIDTH if name in able else WIDTH_BY_CHANCE for name in catalogue.causes}
    return Evidence("width", text, where, likelihood, {})


def of_facts(catalogue: Catalogue, facts: Sequence[str]) -> list[Evidence]:
    """Evidence of `QUESTION=ANSWER` as stated. Raises `InputError` for what the catalogue lacks."""
    out: dict[str, Evidence] = {}
    for fact in facts:
        name, equals, answer = (part.strip() for part in fact.partition("="))
        question = catalogue.questions.get(name)
        if question is None or not equals:
            known = ", ".join(catalogue.questions)
            raise InputError(
                f"--fact {fact:.60}: found {name!r:.40}, expected QUESTION=ANSWER with one of {known}"
            )
        if answer not in question.values:
            known = ", ".join(question.values)
            raise InputError(f"--fact {name}: found {answer!r:.40}, expected one of {known}")
        if name in out:
            raise InputError(f"--fact {name}: found twice, expected one answer")
        text = f"{name} {answer}: {question.means[answer]}"
        out[name] = answered(catalogue, question, {answer: 1.0}, text, STATED)
    return list(out.values())
