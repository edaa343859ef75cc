"""From logits to laws and tokens: temperature, top-k, top-p, and where the randomness comes from.

A law is a distribution over tokens: float64, non-negative, one per row of logits.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from truedraft.contract import COLDEST, InputError


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of a target or a drafter.

    Applied in this order: divide by `temperature`, keep the logits that are at least the `top_k`-th largest
    (0: all), keep the smallest set of most probable tokens whose mass reaches `top_p`. That is the order, and
    the treatment of ties at the k-th place, of transformers' logits warpers.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        for name in ("temperature", "top_k", "top_p"):
            found, kinds = getattr(self, name), (int,) if name == "top_k" else (int, float)
            if isinstance(found, bool) or not isinstance(found, kinds):
                raise InputError(f"{name.replace('_', '-')}: found {found!r:.80}, expected a number")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError(f"temperature: found {self.temperature}, expected a number >= 0")
        if self.top_k < 0:
            raise InputError(f"top-k: found {self.top_k}, expected 0 (off) or more")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top-p: found {self.top_p}, expected more than 0 and at most 1")

    @property
    def greedy(self) -> bool:
        """Whether the law is one-hot at the argmax."""
        return self.temperature < COLDEST

    def law(self, logits: Tensor) -> Tensor:
        """The laws float64 [..., V] of logits [..., V]; each sums to 1 up to rounding."""
        if self.greedy:
            return torch.zeros_like(logits, dtype=torch.float64).scatter_(
                -1, logits.argmax(-1, keepdim=True), 1.0
            )
        scaled = logits.double() / self.temperature
        if 0 < self.top_k < scaled.shape[-1]:
            least = scaled.topk(self.top_k).values[..., -1:]
            scaled = scaled.masked_fill(scaled < least, -math.inf)
        law = scaled.softmax(-1)
        if self.top_p < 1:
            order = scaled.sort(dim=-1, descending=True, stable=True).indices
            mass = law.gather(-1, order)
            beyond = mass.cumsum(-1) - mass >= self.top_p  # the mass before a token already suffices
            law = law.masked_fill(torch.zeros_like(beyond).scatter(-1, order, beyond), 0.0)
            law = law / law.sum(-1, keepdim=True)
        return law


GREEDY = Sampling()
"""Always the argmax."""


class Chance(Protocol):
    """A source of randomness. Tests put one in its place that walks every path."""

    def coin(self, probability: float) -> bool:
        """True with this probability."""

    def draw(self, weights: Tensor) -> int:
        """An index of float64 weights [V], with probability proportional to them."""


class Seeded:
    """Randomness from Python's Mersenne Twister: the same on every machine. `stream` tells uses apart."""

    def __init__(self, seed: int, *stream: int | str) -> None:
        self._random = random.Random(":".join(str(part) for part in (seed, *stream)))

    def coin(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def draw(self, weights: Tensor) -> int:
        """An index of float64 weights [V], by inverting their cumulative sum."""
        return invert(weights, self._random.random())

    def uniforms(self, count: int) -> list[float]:
        """The next `count` numbers in [0, 1); `draw` and `coin` use up one each."""
        return [self._random.random() for _ in range(count)]


def invert(weights: Tensor, point: float) -> int:
    """The index that `point` in [0, 1) falls on when float64 weights [V] are laid end to end.

    Raises `InputError` for weights that are no law.
    """
    require_law(weights)
    sums = weights.cumsum(-1)
    index = int(torch.searchsorted(sums, point * sums[-1], right=True))
    # rounding can put the point at the very end: the last index with any weight is meant then
    return index if index < len(weights) else int(weights.nonzero()[-1])


def require_law(weights: Tensor) -> None:
    """Raise `InputError` unless float64 weights [V] have a positive, finite sum, as NaN logits do not."""
    if not 0 < float(weights.sum()) < math.inf:
        raise InputError("found no law to draw from (NaN or infinite logits), expected a working model")
