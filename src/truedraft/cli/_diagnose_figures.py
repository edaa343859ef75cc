"""From pooled figures to what `diagnose` compares: τ, the curve, K, and K as the figures imply it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from truedraft.diagnose.figures import Measured
from truedraft.measure.sources import Observation, Summary
from truedraft.measure.sources.agree import implied_drafts
from truedraft.measure.sources.definitions import RATE

WIDEST = 0.2
"""Share of the accepted drafts by which bounds of τ may differ, so that their middle is worth anything."""


def measured_of(summary: Summary, where: str, width: int | None) -> Measured | None:
    """The pooled figures, if they tell τ. `width`: K as stated."""
    pooled = summary.acceptance
    tau, rounds = pooled.tau, pooled.rounds
    if tau is None and pooled.tau_between is not None:
        low, high = pooled.tau_between
        mean = summary.chosen[0].pool.mean_of_lengths()  # lengths without rounds: their bounds are extremes
        if mean is not None:
            tau = mean.value
        elif high - low <= max(WIDEST * (high - 1), 0.05):
            tau = (low + high) / 2
    if tau is None or tau < 1 or pooled.proposed == 0:
        return None
    if rounds is None and pooled.rounds_between is not None:
        rounds = pooled.rounds_between[0]
    widths = {k for group in summary.chosen for k in group.pool.widths}
    k = width or (next(iter(widths)) if len(widths) == 1 else None)
    # Where rounds propose different numbers of drafts, survival falls because late drafts are not proposed.
    known = tuple(
        share for share in takewhile(lambda c: c is not None, pooled.conditional) if share is not None
    )
    survival = pooled.survival if known or len(widths) < 2 else ()
    return Measured(tau, where, rounds, tuple(survival), k, known)


def beyond_trained(summary: Summary, trained: int) -> str:
    """What is wrong if figures without K need more drafts per round than were trained, or nothing."""
    for seen in (entry for group in summary.chosen for entry in group.pool.shown):
        for low, what in _least_widths(seen):
            if low > trained:
                return f"{seen.where}: {what}, more than the {trained} that the drafter was trained for"
    return ""


def _least_widths(seen: Observation) -> Iterator[tuple[float, str]]:
    """(least K, in words what says so), where the source does not tell K."""
    if seen.width is not None:
        return
    if seen.rounds and seen.proposed:
        each = seen.proposed / seen.rounds
        yield each, f"{seen.proposed} proposed drafts in {seen.rounds} rounds are {each:.1f} each"
    rate = next((figure for figure in seen.stated if figure.definition == RATE), None)
    drafts = None if rate is None or seen.length is None else implied_drafts(seen.length, rate)
    if rate is not None and seen.length is not None and drafts is not None:
        yield (
            drafts[0],
            f"acceptance rate {rate.value:.3g} with length {seen.length.value:g} implies {drafts[0]:.1f} to "
            f"{drafts[1]:.1f} proposed drafts per round",
        )
