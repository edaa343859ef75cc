"""An engine fills the block with another mask token.

What it finds
    The id whose embedding fills the masked slots differs from `block.mask_token_id`.
Why it matters
    The drafter ships no embedding of its own: the id is a row of the target's table, and another row is
    another input.
In acceptance
    All positions fall; with the anchor's slot filled wrongly 6.34 became 1.46.
Example
    An engine that knows one key only and falls back to the size of the vocabulary.
Fix
    State the id under the key that the engine reads.
References
    SpecForge#604, NeMo Automodel#2461 (S93, S94 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD404"
NAME = "engine-mask"
AXES = frozenset({"block.mask_token_id"})


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "fills the slots with")
