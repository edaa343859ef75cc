"""An engine drops or replaces the drafter's sequence or confidence head.

What it finds
    The Markov head's kind or predecessor, or what the confidence head reads, differs from the contract.
Why it matters
    Engines implement the vanilla head; a gated or recurrent one is then read as vanilla, or not at all.
In acceptance
    Position 0 stays, the later conditional rates fall to those of a plain block drafter.
Example
    `markov_head_type: gated` on vllm:0.32.0:v2, whose model has the vanilla head only.
Fix
    Run it in an engine that has the head.
References
    vLLM 0.32 `qwen3_dspark.py`, vllm-ascend's DFlash 2 patch
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD411"
NAME = "engine-sequence-head"
AXES = frozenset(
    {
        "markov.kind",
        "markov.rank",
        "markov.previous",
        "confidence.input",
        "confidence.bias",
        "confidence.with_markov",
    }
)


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "runs")
