"""The drafter cannot borrow the target's tables, or read its features: the widths differ.

What it finds
    A hidden size that differs from the target's in a drafter without embedding or head of its own, or a
    stated target_hidden_size that is not the target's.
Why it matters
    The embedding and head that such a drafter borrows are as wide as the target.
In acceptance
    None: a shape error, or a head left at random.
Example
    A drafter of width 2560 for Qwen3-4B beside a target of width 4096.
Fix
    The target that the drafter was trained for.
References
    llama.cpp#32 of elizaOS (rows sized by the drafter), vllm#46435 (S08 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._contradiction import contradiction

CODE = "TD107"
NAME = "width-mismatch"


def check(subject: Subject) -> Iterator[Finding]:
    """A contradiction of this kind, if the files have one."""
    yield from contradiction(
        subject,
        CODE,
        frozenset({"width"}),
        fix="serve the drafter with the target that it was trained for",
        references=("vllm#46435",),
    )
