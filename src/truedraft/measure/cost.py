"""Whether speculation pays: what a round costs beside what it brings.

A round brings τ tokens for a draft and a pass over its rows; plain decoding pays a one-row pass per token. So
speculation is τ * plain / (draft + verify) times as fast, and pays from τ = (draft + verify) / plain on (the
argument of arXiv 2211.17192, section 3.3, with the pass over several rows at its own price).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from truedraft.decode import PassTimes


@dataclass(frozen=True)
class Cost:
    """Mean cost per sequence and round, in seconds of wall time; prefill and first rounds are left out.

    `plain_s`: a round of plain decoding, which is a pass over one row; `draft_s`: making the drafts;
    `verify_s`: the pass over the `verify_rows` rows of a round, and their verdict. `sequences`: how many
    shared a plain pass on average; the cost of a pass is divided among them.
    """

    plain_s: float
    draft_s: float
    verify_s: float
    verify_rows: float
    sequences: float = 1.0

    @property
    def break_even_tau(self) -> float:
        """Tokens per round from which on speculation is faster: a round's cost in plain rounds."""
        return (self.draft_s + self.verify_s) / self.plain_s

    def expected_ratio(self, tau: float) -> float:
        """Speculative over plain tokens per second at τ tokens per round."""
        return tau / self.break_even_tau

    def to_json(self, tau: float | None) -> dict[str, Any]:
        """The `cost` object of `truedraft run --json`."""
        expected = None if tau is None else self.expected_ratio(tau)
        return {**asdict(self), "break_even_tau": self.break_even_tau, "expected_ratio": expected}


def cost(plain: PassTimes, speculative: PassTimes) -> Cost | None:
    """From the times of both decoders; `None` where one of them has made no round."""
    if not plain.rounds or not speculative.rounds or plain.verify_s <= 0:
        return None
    return Cost(
        plain.verify_s / plain.rounds,
        speculative.draft_s / speculative.rounds,
        speculative.verify_s / speculative.rounds,
        speculative.rows / speculative.rounds,
        plain.rounds / plain.passes,
    )
