"""A release has a known bug that such a pair meets.

What it finds
    Bugs of a release that no axis describes: a kernel that takes one layer's norm for all, an attention
    schedule of another geometry, random streams that are shared.
Why it matters
    The contract may be read perfectly and the drafter still not run as trained.
In acceptance
    From a few per cent (136 accepted in 242 rounds instead of 144 in 234) to a collapse (1.08 instead of
    3.99).
Example
    vllm:0.32.0 on CPU norms the context keys of every draft layer with the first layer's k_norm.
Fix
    The finding names the release or the flag. The norm of the context keys is mended in a live vLLM by
    TRUEDRAFT=fix:backbone.qk_norm.
References
    vllm#56431, vllm#54374, vllm#54282 (S52, S53 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._hazards import hazards

CODE = "TD426"
NAME = "engine-defect"


def check(subject: Subject) -> Iterator[Finding]:
    """Hazards of this topic."""
    yield from hazards(subject, CODE, "defect")
