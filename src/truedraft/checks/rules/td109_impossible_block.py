"""The block is too narrow, too wide, or cannot yield what is asked of it.

What it finds
    A block size of 0 or beyond belief, or one that cannot hold the stated number of proposals.
Why it matters
    block_size, the number of drafts and the width of the verification are three numbers with three names;
    off by one between them is the slot convention.
In acceptance
    0 drafts, or slots that were never trained.
Example
    block_size 8 with 12 speculative_tokens.
Fix
    block_size = trained rows; drafts = rows, or rows - 1 where slot 0 is unused.
References
    vllm#41834, speculators#737, the founding report (block size read as 0) (F14, S15, S16 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._contradiction import contradiction

CODE = "TD109"
NAME = "impossible-block"


def check(subject: Subject) -> Iterator[Finding]:
    """A contradiction of this kind, if the files have one."""
    yield from contradiction(
        subject,
        CODE,
        frozenset({"block"}),
        fix="state the trained width and its drafts",
        references=("speculators#737",),
    )
