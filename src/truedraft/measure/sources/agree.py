"""Whether the figures of one observation agree with each other; if not, what exactly cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from truedraft.measure.sources.deduce import deduce, only, reached_bounds
from truedraft.measure.sources.definitions import IMPLIED, TAU_ENGINE
from truedraft.measure.sources.observation import Figure, Observation
from truedraft.measure.sources.values import MOST_WIDTH


def settled(seen: Observation, rate: Figure | None = None) -> Observation:
    """`seen` with the rounds, reached positions and table that follow from it, or with its contradiction.

    `rate`: accepted / proposed drafts as printed, where it means that.
    """
    wrong = seen.contradiction or contradiction(seen, rate)
    if wrong:
        return replace(seen, contradiction=wrong)
    if seen.rounds is None and seen.accepted is not None:
        found = deduce(seen.accepted, seen.proposed, seen.length, seen.survival, seen.width)
        if found is not None and found.low > found.high:
            return replace(seen, contradiction="no number of rounds agrees with all printed figures")
        if found is not None:
            seen = replace(
                seen,
                rounds=found.exact,
                rounds_between=None if found.exact is not None else (found.low, found.high),
                reached=seen.reached or found.reached,
                derived=found.exact is not None,
            )
    elif seen.rounds and seen.accepted is not None and seen.survival and not seen.reached:
        whole = len(seen.survival) == seen.width
        shares = [(share.low, share.high) for share in seen.survival]
        bounds = reached_bounds(seen.rounds, seen.accepted, shares, whole)
        if bounds is None:
            return replace(seen, contradiction="no counts agree with the per-position rates")
        seen = replace(seen, reached=only(bounds))
    return replace(seen, table=seen.table or full_table(seen))


def full_table(seen: Observation) -> tuple[tuple[int, int, int], ...]:
    """(proposed, accepted, rounds), known from `reached` only if every round proposed all `width` drafts."""
    k, n = seen.width, seen.rounds
    if not k or n is None or seen.proposed != n * k or len(seen.reached) != k:
        return ()
    steps = (n, *seen.reached, 0)
    return tuple((k, j, steps[j] - steps[j + 1]) for j in range(k + 1) if steps[j] > steps[j + 1])


def contradiction(seen: Observation, rate: Figure | None = None) -> str:
    """The first thing that cannot be, or nothing."""
    n, proposed, accepted, k = seen.rounds, seen.proposed, seen.accepted, seen.width
    if accepted is not None and proposed is not None and accepted > proposed:
        return f"{accepted} accepted drafts of {proposed} proposed"
    if n is not None and accepted is not None and accepted and not n:
        return f"{accepted} accepted drafts in no round"
    if n is not None and proposed is not None and proposed < n and seen.definition == TAU_ENGINE:
        return f"{proposed} proposed drafts in {n} rounds that have at least one each"
    most = k or MOST_WIDTH
    if n is not None and proposed is not None and proposed > n * most:
        return f"{proposed} proposed drafts in {n} rounds of at most {most}"
    if n is not None and accepted is not None and accepted > n * most:
        return f"{accepted} accepted drafts in {n} rounds of at most {most}"
    return _positions(seen) or _lengths(seen) or _rates(seen, rate)


def _positions(seen: Observation) -> str:
    counts = seen.reached
    if any(later > earlier for earlier, later in pairwise(counts)):
        return f"accepted drafts per position rise: {_short(counts)}"
    if counts and seen.rounds is not None and counts[0] > seen.rounds:
        return f"{counts[0]} rounds accepted a draft, of {seen.rounds} rounds"
    whole = len(counts) == seen.width
    if counts and seen.accepted is not None:
        total = sum(counts)
        if total > seen.accepted or (whole and total != seen.accepted):
            return f"accepted drafts per position sum to {total}, not to the {seen.accepted} accepted"
    if any(b.low > a.high for a, b in pairwise(seen.survival)):
        return f"per-position rates rise: {_short([r.value for r in seen.survival])}"
    if any(r.low > 1 for r in seen.survival):
        return "a per-position rate is larger than 1"
    return ""


def no_length(length: Figure, width: int | None = None) -> str:
    """Why no round of at most `width` drafts has this acceptance length, or nothing."""
    if length.high < 1:
        return f"acceptance length {length.value:g} is smaller than 1, the bonus token alone"
    most = width or MOST_WIDTH
    if length.low > most + 1:
        return f"acceptance length {length.value:g} is more than {most} drafts and a bonus token"
    return ""


def _lengths(seen: Observation) -> str:
    length = seen.length
    if length is None:
        return ""
    if wrong := no_length(length, seen.width):
        return wrong
    if seen.rounds and seen.accepted is not None:
        exact = 1 + seen.accepted / seen.rounds
        if not length.low <= exact <= length.high:
            return (
                f"acceptance length {length.value:g}, but 1 + {seen.accepted} / {seen.rounds} = {exact:.4g}"
            )
    if seen.survival and len(seen.survival) == seen.width:
        low, high = 1 + sum(r.low for r in seen.survival), 1 + sum(r.high for r in seen.survival)
        if low > length.high or high < length.low:
            total = (low + high) / 2
            return f"acceptance length {length.value:g}, but 1 + the per-position rates is {total:.4g}"
    return ""


def _rates(seen: Observation, rate: Figure | None) -> str:
    if rate is None:
        return ""
    if seen.proposed and seen.accepted is not None:
        exact = seen.accepted / seen.proposed
        if not rate.low <= exact <= rate.high:
            return f"acceptance rate {rate.value:.4g}, but {seen.accepted} / {seen.proposed} = {exact:.4g}"
    elif seen.length is not None and seen.width:
        drafts = implied_drafts(seen.length, rate)
        if drafts is not None and drafts[0] > seen.width:
            return (
                f"acceptance rate {rate.value:.3g} with length {seen.length.value:g} implies about "
                f"{(seen.length.value - 1) / rate.value:.0f} proposed drafts per round "
                f"({drafts[0]:.1f} to {drafts[1]:.1f}), more than the {seen.width} asked for"
            )
    return ""


def implied_drafts(length: Figure, rate: Figure) -> tuple[float, float] | None:
    """Bounds on the proposed drafts per round, (τ - 1) / rate; `None` if the rate may be 0."""
    if rate.low <= 0:
        return None
    return max(0.0, length.low - 1) / rate.high, (length.high - 1) / rate.low


def implied_figure(length: Figure | None, rate: Figure | None) -> tuple[Figure, ...]:
    """The implied drafts per round as a figure, with the precision that the two have; or nothing."""
    bounds = implied_drafts(length, rate) if length is not None and rate is not None else None
    if bounds is None or bounds[1] <= 0:
        return ()
    return (Figure("implied drafts per round", sum(bounds) / 2, bounds[1] - bounds[0], IMPLIED),)


def _short(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values[:16])
