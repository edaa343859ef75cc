"""Counts that rounded figures leave no choice about, and the bounds where they do.

vLLM and llama.cpp print accepted and proposed drafts as counts, but the number of rounds only through
rounded ratios. The rounds are a whole number n, and so is every number of rounds that reached a position:
often one n alone agrees with every printed digit. Where several do, all that is known is their range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from truedraft.measure.sources.observation import Figure

MOST_CANDIDATES = 2000
"""Wider ranges are not searched: a range that wide does not shrink to one number."""


@dataclass(frozen=True)
class Rounds:
    """`low` to `high`: the numbers of rounds that agree with every figure; `low > high`: none does.

    `reached[i]`: rounds that accepted at least i + 1 drafts, if only one vector agrees; else empty.
    """

    low: int
    high: int
    reached: tuple[int, ...] = ()

    @property
    def exact(self) -> int | None:
        """The number of rounds, if only one agrees."""
        return self.low if self.low == self.high else None


def deduce(
    accepted: int, proposed: int | None, length: Figure | None, survival: Sequence[Figure], width: int | None
) -> Rounds | None:
    """Rounds that agree with `accepted` and `proposed` drafts, τ = `length`, `survival` and at most `width`
    drafts per round. `None`: nothing bounds them.
    """
    low, high = 1.0, math.inf
    if proposed is not None:
        high = proposed  # a round without drafts is not counted
    if width:
        low = max(low, (accepted if proposed is None else proposed) / width)
    ratios = [] if length is None else [(length.low - 1, length.high - 1)]
    if survival and len(survival) == width:
        ratios.append((sum(r.low for r in survival), sum(r.high for r in survival)))
    for least, most in ratios:
        if accepted and most <= 0:
            return Rounds(1, 0)
        if most > 0:
            low = max(low, accepted / most)
        if least > 0:
            high = min(high, accepted / least)
    if not math.isfinite(high) or not (ratios or width):
        return None
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if not survival or last - first > MOST_CANDIDATES:
        return Rounds(first, last)
    whole = len(survival) == width
    kept = [
        (n, found) for n in range(first, last + 1) if (found := reached_bounds(n, accepted, survival, whole))
    ]
    if not kept:
        return Rounds(1, 0)
    exact = kept[0][1] if len(kept) == 1 else []
    unique = all(least == most for least, most in exact)
    return Rounds(kept[0][0], kept[-1][0], tuple(least for least, _ in exact) if unique else ())


def reached_bounds(
    rounds: int, accepted: int, survival: Sequence[Figure], whole: bool
) -> list[tuple[int, int]] | None:
    """Bounds on the rounds that reached each position; `None` if no whole numbers agree.

    `whole`: the positions are all there are, so that their sum is `accepted`.
    """
    bounds = [
        (max(0, math.ceil(share.low * rounds)), min(rounds, math.floor(share.high * rounds)))
        for share in survival
    ]
    for i in range(1, len(bounds)):  # who accepts i + 1 drafts has accepted i
        bounds[i] = (bounds[i][0], min(bounds[i][1], bounds[i - 1][1]))
    for i in range(len(bounds) - 2, -1, -1):
        bounds[i] = (max(bounds[i][0], bounds[i + 1][0]), bounds[i][1])
    if any(least > most for least, most in bounds):
        return None
    if not whole:
        return bounds
    least_sum, most_sum = sum(least for least, _ in bounds), sum(most for _, most in bounds)
    if not least_sum <= accepted <= most_sum:
        return None
    return [
        (max(least, accepted - (most_sum - most)), min(most, accepted - (least_sum - least)))
        for least, most in bounds
    ]
