"""What figures of other programs mean; every printed figure carries one of these lines.

Two figures are pooled only if their definitions are the same line. Sources of each: `docs/measure.md`.
"""

from __future__ import annotations

TAU_ENGINE = (
    "tau = 1 + accepted drafts / rounds: bonus token included, pooled over rounds; "
    "as the engine counts: rounds with drafts only, and drafts behind a stop or length cut too"
)
"""vLLM, llama.cpp and per-request counts of vLLM, SGLang and AIPerf."""

TAU_GAUGE = (
    "tau = 1 + accepted drafts / rounds: bonus token included; of the server's last interval or of its "
    "whole life, as the engine says; the rounds behind it are not stated"
)
"""SGLang `accept len`, `spec_accept_length`, `avg_spec_accept_length`."""

TAU_V0 = (
    "tau = emitted tokens / rounds, rounds = draft tokens / K: bonus token included; vLLM V0, since the "
    "server's start; its accepted tokens are left out, they count matches behind the first mismatch"
)
"""vLLM V0's `Speculative metrics`."""

RATE = "accepted drafts / proposed drafts; falls when K grows, not to be compared across K"
RATE_V0 = "matching drafts / proposed drafts: matches behind the first mismatch count (vLLM V0)"
EFFICIENCY_V0 = "emitted tokens / (rounds * (K + 1)) (vLLM V0)"
LENGTH = "1 + accepted drafts / rounds: bonus token included"
LENGTH_WITHOUT_BONUS = "accepted drafts / rounds: bonus token left out (vLLM before #17908, May 2025)"
LENGTH_UNKNOWN = "accepted drafts / rounds, with or without 1 for the bonus token: the line does not tell"
SURVIVAL = "share of rounds that accepted at least i + 1 drafts"
THETA = (
    "theta = completion tokens / verify steps: counts the token of the prompt's own pass and loses what a "
    "stop cut off; it is not tau and is never pooled with it"
)
RATE_SGLANG = "one of (tau - 1) / K, tau / (steps + 1), tau / draft tokens: the release decides"
RATE_SGLANG_NEW = "accepted drafts / proposed drafts"
RATE_SGLANG_OLD = "(accepted drafts + 1) / width of a round"
MEAN_OF_INTERVALS = "mean of the intervals' lengths, every interval counted once: not pooled over rounds"
IMPLIED = "(acceptance length - 1) / acceptance rate: proposed drafts per round that the two figures imply"
