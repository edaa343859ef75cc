"""An engine embeds or scores draft tokens with another table, scale or vocabulary map.

What it finds
    Own or borrowed embedding and head, their scale, softcap or multiplier, or the map from draft ids to
    target ids differ from the contract.
Why it matters
    A head of 32000 rows replaced by the target's, or ids taken for offsets, scores other tokens altogether.
In acceptance
    About 0 from the first position: 25 % became 1.7 % with the head replaced; a missing scale lowers all
    positions.
Example
    A reduced draft vocabulary on an engine that always shares the target's head.
Fix
    A release that shares tables only where the checkpoint has none; the finding says what is known.
References
    vllm-ascend#11374, vllm#46435, vllm#41703, verl-SpeCo#67, NeMo Automodel#2447 (F05, F06, F08, F09)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD409"
NAME = "engine-tables"
AXES = frozenset(
    {
        "embedding.source",
        "embedding.scale",
        "head.source",
        "head.vocabulary_map",
        "head.vocabulary",
        "head.softcap",
        "head.softcap_order",
        "head.multiplier",
    }
)


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "uses")
