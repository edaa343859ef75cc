"""A convention that no file settles, though the drafter needs it.

What it finds
    A required axis that is neither stated, nor shown by a tensor, nor fixed by the producer's published code.
Why it matters
    Each engine falls back to its own default, and those differ: `sample_from_anchor` absent means true to
    one and false to another, `norm_before_residual` likewise. `truedraft run` refuses such a pair.
In acceptance
    Right in one engine and 1.0 to 1.1 in another, from the same files.
Example
    A speculators DSpark config of unknown version without sample_from_anchor.
Fix
    State the key in the draft config; the finding names the axis and what was looked for.
References
    speculators#569 (a request for an explicit contract), dspark.md on key-less checkpoints, sglang#30982
    (F15)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.contract import AXES

CODE = "TD102"
NAME = "unsettled-axis"


def check(subject: Subject) -> Iterator[Finding]:
    """Required axes that are unknown."""
    contract = subject.contract
    if contract is None:
        return
    for name in contract.unknown:
        if contract.family in AXES[name].required_by:
            note = contract.axes[name].note
            yield Finding(
                code=CODE,
                severity="warning",
                confidence="certain",
                message=f"nothing settles {name}: {note}",
                where="draft/config.json",
                axis=name,
                expected=AXES[name].type.expects,
                fix=f"state it in the draft config; for truedraft {AXES[name].remedy}",
            )
