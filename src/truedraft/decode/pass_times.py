"""What rounds cost: seconds of drafting and of the target's passes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class PassTimes:
    """Sums over rounds; a batch of n sequences counts as n rounds.

    `rows`: those that the target ran. `draft_s`: from the start of a round to its packed drafts, `target_s`:
    from there to the target's choices on the host, in seconds of wall time. On a device that works behind
    the host's back, drafting is waited for, and so counted, in `target_s`; their sum is right everywhere.
    """

    rounds: int = 0
    rows: int = 0
    draft_s: float = 0.0
    target_s: float = 0.0

    def add(self, rounds: int, rows: int, draft_s: float, target_s: float) -> None:
        """Count one pass over a batch."""
        self.rounds += rounds
        self.rows += rows
        self.draft_s += draft_s
        self.target_s += target_s
