"""The acceptance rate is low because K is large, not because drafts are bad.

What it finds
    Arms that propose at least 5 drafts per round, of which less than 40 % are accepted in all, while a draft
    whose predecessors were accepted is itself accepted in at least half of the cases. Always a note.
Why it matters
    Drafts behind the first rejection count as rejected too, so the rate falls as K rises although nothing
    else changes. Reports of "27 % acceptance" were false alarms.
In acceptance
    0.15 at K = 15 is an acceptance length of 3.1; 27 % at K = 7 one of 2.91, with 0.65 per draft.
Example
    llama.cpp's `accept_rate`, vLLM's "Avg Draft acceptance rate", SGLang's `accept rate`.
Fix
    Read the acceptance length and the conditional rates. Compare rates for equal K only.
References
    llama.cpp#25792 (S56), vllm-ascend#13640 (S66), vllm#39359
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, pooled_tau, rounds, where

CODE = "TD507"
NAME = "rate-at-large-k"


def check(subject: Subject) -> Iterator[Finding]:
    """Accepted over proposed drafts against accepted over decided ones, pooled by arm."""
    for arm, records in arms(subject):
        counted = list(rounds(records))
        proposed, accepted = sum(p * n for p, _, n in counted), sum(a * n for _, a, n in counted)
        rejected, of = sum(n for p, a, n in counted if a < p), sum(n for _, _, n in counted)
        if not of or proposed < 5 * of:
            continue
        rate, conditional = accepted / proposed, accepted / max(accepted + rejected, 1)
        if rate < 0.4 and conditional >= 0.5:
            yield Finding(
                code=CODE,
                severity="note",
                confidence="likely",
                message=(
                    f"a rate of {rate:.0%} looks low, but {conditional:.0%} of drafts that follow accepted "
                    f"ones are accepted: acceptance length {pooled_tau(records)}"
                ),
                where=where(arm),
                found=round(rate, 3),
                expected=round(conditional, 3),
                fix="judge by acceptance length and conditional rates; a smaller K saves drafting time",
                references=("llama.cpp#25792", "vllm-ascend#13640"),
            )
