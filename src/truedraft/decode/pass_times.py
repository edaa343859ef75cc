"""What rounds cost: seconds of drafting and of verifying."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class PassTimes:
    """Sums over rounds; one pass over a batch of n sequences counts as n rounds.

    A sequence's first round is left out: a drafter takes in the whole prompt there. `rows`: those that were
    verified. `draft_s`: from the start of a round to its packed drafts (with `context.end=through_anchor` the
    target's pass over the anchor is part of it). `verify_s`: from there to the verdicts, sampling laws
    included. Both in seconds of wall time. On a device that works behind the host's back drafting is waited
    for, and so counted, in `verify_s`; their sum is right everywhere.
    """

    passes: int = 0
    rounds: int = 0
    rows: int = 0
    draft_s: float = 0.0
    verify_s: float = 0.0

    def add(self, rounds: int, rows: int, draft_s: float, verify_s: float) -> None:
        """Count one pass over a batch."""
        self.passes += 1
        self.rounds += rounds
        self.rows += rows
        self.draft_s += draft_s
        self.verify_s += verify_s
