"""The mask token of the block is no row of the target's table, or a token with a meaning.

What it finds
    A mask_token_id beyond the target's embedding table (error); one that is also a stop token of the target
    (warning).
Why it matters
    The drafter ships no embedding for it: the id must be an existing row of the target's table, and the
    trainer's choice. A trainer that falls back to the pad token often takes the end of text.
In acceptance
    A wrong id lowers all positions; an id of a meaningful token costs an unknown amount in training.
Example
    "mask_token_id": 2 where 2 is the end of text.
Fix
    The id that the drafter was trained with. A stop token as mask is legal if it was trained so.
References
    NeMo Automodel#2461, SpecForge#604, Model-Optimizer#1621 (S93, S94 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._contradiction import contradiction
from truedraft.checks.rules._where import place

CODE = "TD108"
NAME = "mask-token"


def check(subject: Subject) -> Iterator[Finding]:
    """A mask token beyond the table, or one that ends the text."""
    fix = "the id that the drafter was trained with"
    yield from contradiction(subject, CODE, frozenset({"mask"}), fix=fix, references=("SpecForge#604",))
    contract = subject.contract
    mask = None if contract is None else contract.get("block.mask_token_id")
    if contract is not None and mask is not None and mask in contract.target.stop_token_ids:
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="possible",
            message=f"the mask token {mask} is also a stop token of the target",
            where=place(contract.axes["block.mask_token_id"]),
            axis="block.mask_token_id",
            found=mask,
            fix="make sure that the drafter was trained with it",
            references=("NeMo Automodel#2461",),
        )
