"""The shape of acceptance over the slots of a draft, from counts.

`conditional[i]`: share of the rounds that accepted all drafts before i, which also accepted draft i. Judged
by it and not by the average rate, which falls with k although nothing is wrong (`docs/diagnose.md`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DEAD, HALF, GOOD = 0.15, 0.5, 0.66
"""Acceptance of the first draft below which nothing works; below which it is low; of a slot that is good."""

CUT, BEFORE_CUT = 0.04, 0.25
"""Conditional acceptance that counts as none, behind a slot that has at least this."""

DRAWS = 300

ALL_OR_NOTHING = 20
"""Rounds without exception from which that is a sign of its own."""


SHAPES = ("dead", "cut", "collapse", "low", "cliff", "fading", "good", "fair")
"""Of a curve without its counts; `saturated` takes counts."""


def shape(conditional: Sequence[float]) -> str:
    """One of `SHAPES`. `nan`: nothing is known of that slot and later ones."""
    known = [c for c in conditional if c == c]
    return SHAPES[int(shapes(np.array([known]))[0])]


def shapes(conditional: NDArray[np.float64]) -> NDArray[np.intp]:
    """Shapes of many curves [curves, slots], as places in `SHAPES`."""
    first, later, before = conditional[:, 0], conditional[:, 1:], conditional[:, :-1]
    slots = conditional.shape[1]
    cut = ((before >= BEFORE_CUT) & (later < CUT)).any(1)
    drops = later[:, 0] < 0.5 * first if slots > 1 else np.zeros(len(first), dtype=bool)
    half = (slots + 1) // 2
    fading = conditional[:, half:].mean(1) < 0.7 * conditional[:, :half].mean(1) if slots > 1 else drops
    rules = {
        "dead": first < DEAD,
        "cut": cut,
        "collapse": (first < HALF) & drops,
        "low": first < HALF,
        "cliff": drops,
        "fading": fading,
        "good": conditional.mean(1) >= GOOD,
    }
    found: NDArray[np.intp] = np.select(
        list(rules.values()), [SHAPES.index(name) for name in rules], SHAPES.index("fair")
    ).astype(np.intp)
    return found


def shape_weights(rounds: int, reached: Sequence[int]) -> dict[str, float]:
    """How well each shape agrees with the counts; sums to 1.

    `reached[i]`: rounds that accepted at least i + 1 drafts. The shapes of draws from the posterior of every
    conditional share (Jeffreys' prior), slots with fewer than 3 rounds left out.
    """
    if rounds < 1 or not reached:
        return {}
    before = [rounds, *reached[:-1]]
    width = next((i for i, n in enumerate(before) if n < 3), len(before)) or 1
    below, above = np.array(before[:width], dtype=float), np.array(reached[:width], dtype=float)
    random = np.random.default_rng(0)
    draws = random.beta(above + 0.5, np.maximum(below - above, 0) + 0.5, (DRAWS, width))
    counts = np.bincount(shapes(draws), minlength=len(SHAPES))
    out = {name: int(count) / DRAWS for name, count in zip(SHAPES, counts, strict=True) if count}
    if rounds >= ALL_OR_NOTHING and (reached[0] == 0 or reached[-1] == rounds):
        # Nothing but full rounds is hardly ever text; nothing at all mostly is a dead drafter.
        saturated = 0.1 if reached[0] == 0 else 0.5
        out = {name: share * (1 - saturated) for name, share in out.items()} | {"saturated": saturated}
    return out
