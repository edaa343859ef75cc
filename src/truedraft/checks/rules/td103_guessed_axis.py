"""A convention that is a guess, drawn from hints and not from a statement.

What it finds
    An axis whose source is `inferred`: a count that fits one reading, the habits of a producer.
Why it matters
    A guess must never look like a statement: it is as good as its reason, which the finding gives.
In acceptance
    None if the guess is right. The probe (`truedraft probe`, once it is there) can decide from the weights.
Example
    block_size 8 and speculative_tokens 7 without sample_from_anchor: slot 0 is taken to be unused.
Fix
    State the key in the draft config.
References
    dspark.md on key-less speculators checkpoints; sglang#32204 for taps of the last layer (S06)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject

CODE = "TD103"
NAME = "guessed-axis"


def check(subject: Subject) -> Iterator[Finding]:
    """Axes whose value is a guess."""
    contract = subject.contract
    for name in () if contract is None else contract.inferred:
        source = contract.axes[name].source if contract is not None else None
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="possible",
            message=f"{name} is a guess: {source.where if source else ''}",
            where="draft/config.json",
            axis=name,
            found=contract.get(name) if contract is not None else None,
            fix="state it in the draft config",
        )
