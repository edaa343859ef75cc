"""Arms: figures of the same deployment with one thing changed. Each answers one question of the catalogue."""

from __future__ import annotations

from truedraft.diagnose.figures import Measured
from truedraft.diagnose.parts import Part, falls
from truedraft.diagnose.trends import Trend

ARMS: dict[str, tuple[str, str, str]] = {
    "other-runner": ("runner", "same", "other-good"),
    "other-engine": ("engine", "same", "other-good"),
    "eager": ("eager", "same", "eager-good"),
    "tp1": ("tp", "same", "one-good"),
    "cache-off": ("cached", "flat", "falls"),
    "batch1": ("batch", "flat", "falls"),
    "short-context": ("context", "flat", "falls"),
    "greedy": ("sampling", "same", "greedy-good"),
    "k1": ("k", "same", "fewer-better"),
    "unquantised": ("unquantised", "same", "good"),
    "other-drafter": ("drafter", "same", "other-good"),
    "text-only": ("images", "no", "only"),
    "free-text": ("grammar", "no", "only"),
    "thinking-off": ("thinking", "as-trained", "unlike-training"),
    "natural-prompts": ("prompts", "natural", "random"),
}
"""Arm -> question, its answer if the arm is no better, its answer if the arm is better."""


def of_arm(name: str, base: Measured, arm: Measured) -> Trend | None:
    """What an arm says. `k1` is compared by the first draft. `None`: an arm of no question, or too little."""
    if name not in ARMS:
        return None
    question, same, better = ARMS[name]
    if name == "k1":
        one, other = _first(arm), _first(base)
        shown = "first draft accepted {:.0%} in the arm {}, {:.0%} without"
    else:
        one, other = _accepted(arm), _accepted(base)
        shown = "τ {:.2f} in the arm {}, {:.2f} without"
    if one is None or other is None:
        return None
    flat, fall = falls(one, other)
    add = 0 if name == "k1" else 1
    return Trend(question, {same: flat, better: fall}, shown.format(add + one.mean, name, add + other.mean))


def _accepted(seen: Measured) -> Part | None:
    mean = max(seen.tau - 1, 1e-3)
    return Part(mean, seen.error / mean, seen.rounds or 0)


def _first(seen: Measured) -> Part | None:
    """Acceptance of the first draft; with three times the variance of independent rounds."""
    if not seen.survival:
        return None
    share, rounds = max(seen.survival[0], 1e-3), seen.rounds or 100
    return Part(share, (3 * max(1 - share, 0.01) / (share * rounds)) ** 0.5, rounds)
