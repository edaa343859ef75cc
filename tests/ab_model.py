"""A made-up engine: accepted drafts of prompts in boots, with spread at every level (`measurement.md` §3).

A draft at hand is accepted with probability sigmoid(x), x = base + prompt + boot + prompt-by-run noise +
AR(1) difficulty along the generation. With these numbers τ is 3.2, a boot's standard deviation 1.2 % of τ
(without what its prompts add), a cell's 0.38, and prompts differ by 0.94.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truedraft.stats.figures import Sums

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Engine:
    """Standard deviations on the logit scale; `memory` of the AR(1) process; K drafts per round."""

    base: float = 0.55
    prompt: float = 0.8
    boot: float = 0.035
    run: float = 0.1
    step: float = 1.2
    memory: float = 0.7
    K: int = 7


@dataclass(frozen=True)
class Counts:
    """`accepted`, `first` (rounds whose draft 0 was accepted) [boots, prompts]; `rounds` [prompts].

    `variance`: of the accepted drafts of one round.
    """

    accepted: Floats
    first: Floats
    rounds: Floats
    variance: float

    def sums(self, figure: str, boots: slice | NDArray[np.intp]) -> Sums:
        """`tau`, `tau_macro` or `survival` (position 0) of some boots."""
        accepted, first = self.accepted[boots], self.first[boots]
        rounds = np.broadcast_to(self.rounds, accepted.shape)
        if figure == "tau":
            return Sums(figure, None, accepted, rounds, 1.0)
        if figure == "tau_macro":
            return Sums(figure, None, accepted / rounds, np.ones(rounds.shape), 1.0)
        return Sums("survival", 0, first, rounds)


def lengths(prompts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rounds per prompt, 60 to 180, longest first."""
    return np.sort(rng.integers(60, 181, prompts))[::-1]


def simulate(
    engine: Engine, difficulty: Floats, rounds: NDArray[np.int64], boots: int, rng: np.random.Generator
) -> Counts:
    """Counts of `boots` boots. `difficulty`: logits [prompts] or [boots, prompts], effects included."""
    shape = (boots, len(rounds))
    at_boot = engine.boot * rng.standard_normal((boots, 1))
    logit = (engine.base + difficulty + at_boot + engine.run * rng.standard_normal(shape)).astype(np.float32)
    state = rng.standard_normal(shape, dtype=np.float32)
    memory, news = np.float32(engine.memory), np.float32(np.sqrt(1 - engine.memory**2))
    accepted, first, squares = np.zeros(shape), np.zeros(shape), 0.0
    for t in range(int(rounds[0])):
        live = int(np.searchsorted(-rounds, -t))  # prompts with more than t rounds: they come first
        state = memory * state[:, :live] + news * rng.standard_normal((boots, live), dtype=np.float32)
        # The number of successes before the first failure has a law in closed form.
        log_rate = -np.log1p(np.exp(-(logit[:, :live] + np.float32(engine.step) * state)))
        drawn = np.log1p(-rng.random((boots, live), dtype=np.float32)) / log_rate
        count = np.minimum(np.floor(drawn), engine.K)
        accepted[:, :live] += count
        first[:, :live] += count > 0
        squares += float(np.square(count).sum())
    total = boots * float(rounds.sum())
    variance = squares / total - (float(accepted.sum()) / total) ** 2
    return Counts(accepted, first, rounds.astype(np.float64), variance)
