"""Two parts of what was accepted, and how much better a fall explains their difference than none.

They are compared by δ = log(a_far / a_near), a = accepted drafts per round, with a standard error from
prompts as clusters (delta method for a ratio of sums). A prompt that is in both parts counts as a pair: how
hard it is cancels. The weight of `flat` is the density of δ at 0, of `falls` its mean over falls from 10 % to
nearly everything, the smaller the likelier; both with 3 % of unevenness that needs no cause, and with the
tails of Student's law for few prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

UNEVEN = 0.03
FEWEST_CLUSTERS, FEWEST_ROUNDS = 3, 40
FALLS = np.linspace(-0.1, -3.0, 59)
USUAL_FALL = 1.5
"""Mean of the fall of log a beyond its least: the public reports lose a fifth to nearly everything."""

MANY = 60
"""Clusters from which Student's law is the normal one."""

_LIKELY = np.exp((FALLS - FALLS[0]) / USUAL_FALL)
_LIKELY /= _LIKELY.sum()

Cell = tuple[str, int, int]
"""Cluster (prompt), rounds, accepted drafts."""


@dataclass(frozen=True)
class Part:
    """Accepted drafts per round of some records, and the standard error of its logarithm.

    `pull`: cluster -> what it adds to that error; empty where clusters are not known. `floor`: the error if
    clusters differed by chance alone.
    """

    mean: float
    error: float
    rounds: int
    clusters: int = MANY
    floor: float = 0.0
    pull: Mapping[str, float] = field(default_factory=dict)


Sums = dict[str, tuple[float, float]]


def parts_of(near: Iterable[Cell], far: Iterable[Cell]) -> tuple[Part, Part] | None:
    """Two parts to be compared; `None` if one of them is too small.

    If most prompts are in both, only those count, and each as much in one part as in the other: otherwise
    a prompt that happened to be answered at length in one of them would make a difference.
    """
    one, other = _sums(near), _sums(far)
    both = one.keys() & other.keys()
    if len(both) >= FEWEST_CLUSTERS and len(both) > max(len(one), len(other)) / 2:
        weight = {name: 2 / (1 / one[name][0] + 1 / other[name][0]) for name in sorted(both)}
        one, other = (
            {name: (w, w * sums[name][1] / sums[name][0]) for name, w in weight.items()}
            for sums in (one, other)
        )
    parts = _part(one), _part(other)
    return None if parts[0] is None or parts[1] is None else (parts[0], parts[1])


def _sums(cells: Iterable[Cell]) -> Sums:
    sums: Sums = {}
    for cluster, rounds, accepted in cells:
        if rounds:
            before = sums.get(cluster, (0.0, 0.0))
            sums[cluster] = (before[0] + rounds, before[1] + accepted)
    return sums


def _part(sums: Sums) -> Part | None:
    table = np.array(list(sums.values()), dtype=float).reshape(-1, 2)
    total = table.sum(0)
    if len(table) < FEWEST_CLUSTERS or total[0] < FEWEST_ROUNDS:
        return None
    mean = float((total[1] + 0.5) / (total[0] + 0.5))
    count = len(table)
    pull = (table[:, 1] - mean * table[:, 0]) * math.sqrt(count / (count - 1)) / (total[0] * mean)
    floor = math.sqrt(mean / total[0]) / mean
    error = max(math.sqrt(float((pull**2).sum())), floor)
    return Part(mean, error, int(total[0]), count, floor, dict(zip(sums, map(float, pull), strict=True)))


def falls(near: Part, far: Part) -> tuple[float, float]:
    """Weights of (flat, falls), not normalised."""
    delta = math.log(far.mean / near.mean)
    both = near.pull.keys() & far.pull.keys()
    shared = sum(near.pull[name] * far.pull[name] for name in both)
    least = near.floor**2 + far.floor**2
    error = math.sqrt(max(near.error**2 + far.error**2 - 2 * shared, least) + UNEVEN**2)
    paired = len(both) > max(near.clusters, far.clusters) / 2
    free = (len(both) if paired else min(near.clusters, far.clusters)) - 1
    falling = sum(
        weight * _density(delta, at, error, free) for at, weight in zip(FALLS, _LIKELY, strict=True)
    )
    return _density(min(delta, 0.0), 0.0, error, free) + 1e-12, float(falling) + 1e-12


def _density(delta: float, at: float, error: float, free: int) -> float:
    """Of Student's law with `free` degrees of freedom, up to a factor that depends on `free` alone."""
    away = ((delta - at) / error) ** 2
    if free >= MANY:
        return math.exp(-0.5 * away) / error
    return math.exp(-0.5 * (free + 1) * math.log1p(away / free)) / error
