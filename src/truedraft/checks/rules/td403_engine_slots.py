"""An engine reads the drafted block one slot early or late, or makes it narrower or wider.

What it finds
    The meaning of slot 0 (`block.first_slot`), the number of query rows (`block.width`) or the tokens per
    block (`block.proposals`) differ from the contract.
Why it matters
    DeepSpec trains slot j to predict anchor+j+1; z-lab's DFlash and speculators' bonus-anchor drafters throw
    slot 0 away and let slot j predict anchor+j. No tensor shape tells the two apart, and engines' defaults
    for an absent `sample_from_anchor` differ. A narrower or wider block is another model input.
In acceptance
    Slots read one early or late: about 1.1 where 4.05 was trained. A block size of 0 drafts nothing.
Example
    A speculators DSpark config without sample_from_anchor on an engine that takes slot 0 as a prediction.
Fix
    State `sample_from_anchor` in the draft config; copy the block size to the config that the engine reads.
References
    sglang#30982, vllm#48639, llama.cpp#26275, speculators#760, the founding reports (F15, S16, S17 in the
    field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD403"
NAME = "engine-slots"
AXES = frozenset(
    {
        "block.width",
        "block.proposals",
        "block.first_slot",
        "block.position_offset",
        "block.anchor_fill",
        "context.end",
    }
)


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "runs")
