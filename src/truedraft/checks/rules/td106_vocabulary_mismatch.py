"""Target and drafter count different vocabularies.

What it finds
    A drafter's vocab_size that is not the target's, or a draft vocabulary larger than the target's.
Why it matters
    Ids then mean other strings to one of them; where a table is borrowed, rows are missing.
In acceptance
    0, or wrong text where an engine does not check (a draft model of another family).
Example
    vocab_size 151936 in the drafter, 248320 in the target: a Qwen3 drafter on Qwen3.5.
Fix
    The target that the drafter was trained for.
References
    sglang#23838, pocketpal#876 (F30, S77 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._contradiction import contradiction

CODE = "TD106"
NAME = "vocabulary-mismatch"


def check(subject: Subject) -> Iterator[Finding]:
    """A contradiction of this kind, if the files have one."""
    yield from contradiction(
        subject,
        CODE,
        frozenset({"vocabulary"}),
        fix="serve the drafter with the target that it was trained for",
        references=("sglang#23838",),
    )
