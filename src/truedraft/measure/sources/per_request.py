"""Counts of one request: what `speculative_decoding`, `meta_info` and AIPerf's exports have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation, figure


def from_histogram(seen: Observation, histogram: tuple[int, ...] | None) -> Iterator[Item]:
    """`seen` with what the histogram (rounds that accepted exactly j drafts) adds, if it agrees.

    A histogram tells rounds, accepted drafts and survival. What each round proposed it does not tell: that
    is known where all rounds together proposed `width` times their number.
    """
    if histogram is None:
        yield settled(seen)
        return
    rounds, accepted = sum(histogram), sum(j * n for j, n in enumerate(histogram))
    longest = max((j for j, n in enumerate(histogram) if n), default=0)
    width = seen.width or max(longest, len(histogram) - 1) or None
    for name, stated, implied in (
        ("rounds", seen.rounds, rounds),
        ("accepted drafts", seen.accepted, accepted),
    ):
        if stated is not None and stated != implied:
            wrong = f"{stated} {name} stated, the histogram says {implied}"
            yield replace(seen, contradiction=wrong)
            return
    if seen.width and longest > seen.width:
        yield replace(seen, contradiction=f"{longest} accepted drafts in a round of at most {seen.width}")
        return
    reached = tuple(sum(histogram[i + 1 :]) for i in range(width or 0))
    yield settled(replace(seen, rounds=rounds, accepted=accepted, reached=reached, width=width))


def from_rounds(seen: Observation, proposed: tuple[int, ...], accepted: tuple[int, ...]) -> Iterator[Item]:
    """`seen` with its rounds one by one; what they add up to must be what `seen` states."""
    sums = {"rounds": len(accepted), "proposed": sum(proposed), "accepted": sum(accepted)}
    if len(proposed) != len(accepted) or any(a > p for p, a in zip(proposed, accepted, strict=False)):
        yield Notice(seen.where, "partial", "per-step arrays do not belong together: not used")
        yield settled(seen)
        return
    for name, total in sums.items():
        stated = getattr(seen, name)
        if stated is not None and stated != total:
            yield replace(seen, contradiction=f"{stated} {name} stated, the steps add up to {total}")
            return
    table = Counter(zip(proposed, accepted, strict=True))
    width = max(proposed, default=0)
    yield settled(
        replace(
            seen,
            rounds=len(accepted),
            proposed=sum(proposed),
            accepted=sum(accepted),
            reached=tuple(sum(n for (_, a), n in table.items() if a > i) for i in range(width)),
            width=max(width, seen.width or 0) or None,
            table=tuple((p, a, n) for (p, a), n in sorted(table.items())),
        )
    )


def exact(name: str, value: float | None, definition: str) -> tuple[Figure, ...]:
    """A figure of a JSON source, as precise as its digits; nothing if it is not stated."""
    return () if value is None else (figure(name, repr(value), definition),)
