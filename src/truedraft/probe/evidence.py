"""From scores to evidence: two wirings on the same anchors, compared prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from truedraft.contract import Value
from truedraft.probe.replay import Scores
from truedraft.stats import Estimate, estimate

SAME = 1e-4
"""Log-probabilities that differ by less are the same computation in another order."""

PromptScores: TypeAlias = "Sequence[Scores]"


@dataclass(frozen=True)
class Comparison:
    """A candidate against the value that an axis has, all other axes alike.

    `log_q`: difference of the mean log-probability of the true tokens, in nats per draft. `accepted`: that of
    the accepted drafts per anchor. Both over the slots that both have. `tau`: the candidate's own, 1 +
    accepted drafts. `exercised`: some proposal's law changed at all.
    """

    axis: str
    value: Value
    log_q: Estimate
    accepted: Estimate
    tau: Estimate
    exercised: bool


def mean_tau(scores: PromptScores) -> Estimate:
    """1 + accepted drafts per anchor, over prompts."""
    return estimate([1 + float(s.accepted(s.hits.shape[1]).mean()) for s in scores])


def first_draft(scores: PromptScores) -> Estimate:
    """Share of anchors whose first draft is the true token, over prompts."""
    return estimate([float(s.hits[:, 0].mean()) for s in scores])


def compare(axis: str, value: Value, now: PromptScores, other: PromptScores) -> Comparison:
    """`other`, under which the axis has `value`, against `now`."""
    slots = min(now[0].hits.shape[1], other[0].hits.shape[1])
    changed = any(
        float(np.abs(a.log_q[:, :slots] - b.log_q[:, :slots]).max()) > SAME
        for a, b in zip(now, other, strict=True)
    )
    pairs = list(zip(now, other, strict=True))
    accepted = [float((b.accepted(slots) - a.accepted(slots)).mean()) for a, b in pairs]
    return Comparison(
        axis,
        value,
        estimate(_likelihood(other, slots) - _likelihood(now, slots)),
        estimate(accepted),
        mean_tau(other),
        changed,
    )


def _likelihood(scores: PromptScores, slots: int) -> NDArray[np.float64]:
    """Mean log-probability of the true tokens per prompt, at the temperature that suits this wiring best."""
    by_prompt = np.stack([s.log_q[:, :slots].mean((0, 1), dtype=np.float64) for s in scores])
    best: NDArray[np.float64] = by_prompt[:, int(by_prompt.mean(0).argmax())]
    return best
