"""Acceptance is too good to be true.

What it finds
    Arms of at least 50 rounds in which nearly every draft of every round is accepted; in which rounds accept
    either none or all of three drafts and more, never something between; or in which half of the prompts, and
    at least three, have one and the same output. Rounds that were cut short do not count: the last of a
    request, and those of fewer than K drafts.
Why it matters
    Drafts are accepted by comparison with the target. A target that is itself corrupted (NaN logits, state
    that was not rolled back) agrees with anything.
In acceptance
    Exactly 1 or exactly the maximum, with '!!!!' as text; a speed-up of 1.28 that in truth was 0.86.
Example
    K = 4 and an acceptance length of 5.00.
Fix
    Compare greedy output with and without drafts on the same prompts (`truedraft run` does) and read it,
    before any figure is trusted. Copying tasks do reach the maximum: then nothing is wrong.
References
    rMLX#436 (F21), TensorRT-LLM#5146 (S23), vllm#44487
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, where
from truedraft.contract import AcceptanceRecord

CODE = "TD508"
NAME = "too-good"

ROUNDS = 50
FULL = 0.99
OUTPUT_TOKENS = 16


def check(subject: Subject) -> Iterator[Finding]:
    """Rounds and outputs of each arm."""
    for arm, records in arms(subject):
        whole = [entry for record in records for entry in _whole_rounds(record)]
        full, of = sum(n for p, a, n in whole if a == p), sum(n for _, _, n in whole)
        if of >= ROUNDS:
            if full >= FULL * of:
                yield _finding(arm, f"{full} of {of} rounds accept every draft", full)
            elif full >= 0.05 * of and all(a in (0, p) and p >= 3 for p, a, _ in whole):
                yield _finding(arm, f"all {of} rounds accept either every draft or none", full)
        outputs = {record.prompt_id: record for record in records if record.output_tokens >= OUTPUT_TOKENS}
        same = Counter(record.output_hash for record in outputs.values() if record.output_hash)
        most = max(same.values(), default=0)
        if most >= 3 and most >= len(outputs) / 2:
            yield _finding(arm, f"{most} of {len(outputs)} prompts have one and the same output", most)


def _whole_rounds(record: AcceptanceRecord) -> Iterator[tuple[int, int, int]]:
    """Proposed, accepted and number of the rounds of K drafts; sure drafts alone may all be right.

    The last round, which a stop may have cut, is left out where the order of rounds is known.
    """
    pairs = list(zip(record.proposed, record.accepted, strict=True))[:-1]
    counted = Counter(pairs) if record.proposed else record.table
    yield from ((p, a, n) for (p, a), n in counted.items() if n and p >= max(record.K, 1))


def _finding(arm: str, message: str, found: int) -> Finding:
    return Finding(
        code=CODE,
        severity="warning",
        confidence="possible",
        message=f"{message}: check the output before the figure",
        where=where(arm),
        found=found,
        fix="compare greedy output with and without drafts, and read it",
        references=("TensorRT-LLM#5146",),
    )
