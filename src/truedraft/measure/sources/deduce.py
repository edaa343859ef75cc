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
    whole, ends = len(survival) == width, [(share.low, share.high) for share in survival]
    fits = (n for n in range(first, last + 1) if reached_bounds(n, accepted, ends, whole))
    lowest = next(fits, None)
    if lowest is None:
        return Rounds(1, 0)
    highest = last
    while highest > lowest and not reached_bounds(highest, accepted, ends, whole):
        highest -= 1
    exact = reached_bounds(lowest, accepted, ends, whole) if lowest == highest else None
    return Rounds(lowest, highest, only(exact))


def only(bounds: list[tuple[int, int]] | None) -> tuple[int, ...]:
    """The counts, if their bounds leave one vector; else nothing."""
    if bounds is None or any(least != most for least, most in bounds):
        return ()
    return tuple(least for least, _ in bounds)


def reached_bounds(
    rounds: int, accepted: int, shares: Sequence[tuple[float, float]], whole: bool
) -> list[tuple[int, int]] | None:
    """Bounds on the rounds that reached each position; `None` if no whole numbers agree.

    `shares`: bounds of every position's share. `whole`: the positions are all there are, so that their sum is
    `accepted`.
    """
    bounds, before = [], rounds
    for low, high in shares:  # who accepts i + 1 drafts has accepted i
        least, most = math.ceil(low * rounds), math.floor(high * rounds)
        before = most if most < before else before
        if least > before:
            return None
        bounds.append((least if least > 0 else 0, before))
    for i in range(len(bounds) - 2, -1, -1):
        if bounds[i + 1][0] > bounds[i][0]:
            bounds[i] = (bounds[i + 1][0], bounds[i][1])
    if not whole:
        return bounds
    least_sum, most_sum = sum(least for least, _ in bounds), sum(most for _, most in bounds)
    if not least_sum <= accepted <= most_sum:
        return None
    return [
        (max(least, accepted - (most_sum - most)), min(most, accepted - (least_sum - least)))
        for least, most in bounds
    ]
