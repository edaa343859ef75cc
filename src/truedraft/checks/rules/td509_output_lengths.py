"""Output lengths differ between arms, or are so short that cut rounds matter.

What it finds
    Arms whose outputs for the prompts that they share are 25 % longer or shorter than those of another. As a
    note: arms with fewer than 5 rounds per request, where the last round, which a stop or the length limit
    cuts, is one in five.
Why it matters
    Acceptance falls with the length of the output in every engine, and prompts that stop early weigh less in
    a pooled figure. At temperature 0 different lengths also mean different text, so the arms differ in more
    than the drafter.
In acceptance
    Some per cent: as much as many faults. Tools disagree by up to one in the number of rounds about the last.
Example
    One arm with ignore_eos or another max_tokens.
Fix
    The same prompts, stop conditions and length limit in both arms (vLLM, SGLang: ignore_eos and max_tokens);
    or one fixed text replayed through both, which takes the content out altogether.
References
    arXiv 2605.09329 (section 5 of the field log), sglang#33518, vllm#33497 (S68)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import Arm, arms, where
from truedraft.contract import AcceptanceRecord

CODE = "TD509"
NAME = "output-lengths"

RATIO = 1.25
ROUNDS = 5
MOST_ARMS = 16
"""Arms that are compared with each other."""


def check(subject: Subject) -> Iterator[Finding]:
    """Each pair of arms on their common prompts, then each arm alone."""
    found = arms(subject)
    for first, second in combinations(found[:MOST_ARMS], 2):
        yield from _compare(first, second)
    for arm, records in found:
        requests = [record for record in records if record.proposed]  # a histogram may be of many requests
        per_request = sum(len(record.proposed) for record in requests) / max(len(requests), 1)
        if 0 < per_request < ROUNDS:
            yield Finding(
                code=CODE,
                severity="note",
                confidence="certain",
                message=f"{per_request:.1f} rounds per request: cut last rounds are a large share",
                where=where(arm),
                found=round(per_request, 1),
                expected=ROUNDS,
                fix="ask for longer outputs, and say how the last round is counted",
                references=("sglang#33518",),
            )


def _compare(first: Arm, second: Arm) -> Iterator[Finding]:
    common = {r.prompt_id for r in first[1]} & {r.prompt_id for r in second[1]}
    lengths = [_mean_length(records, common) for _, records in (first, second)]
    shorter, longer = min(lengths), max(lengths)
    if longer > RATIO * shorter:
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="certain",
            message=(
                f"on {len(common)} common prompts arm {first[0]!r:.40} wrote {lengths[0]:.0f} tokens each, "
                f"arm {second[0]!r:.40} {lengths[1]:.0f}"
            ),
            where="records",
            found=f"{lengths[0]:.0f} and {lengths[1]:.0f}",
            expected="outputs of like length",
            fix="same stop conditions and limits in both arms; at temperature 0 compare the texts",
            references=("vllm#33497",),
        )


def _mean_length(records: list[AcceptanceRecord], prompts: set[str]) -> float:
    lengths = [record.output_tokens for record in records if record.prompt_id in prompts]
    return sum(lengths) / max(len(lengths), 1)
