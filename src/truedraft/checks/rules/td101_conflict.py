"""Two sources contradict each other about one convention.

What it finds
    An axis for which two keys, a key and a tensor, or a key and the producer's published rule give different
    values.
Why it matters
    Every loader takes one of them, and not all the same one. `truedraft run` refuses such a pair.
In acceptance
    Anything from nothing to a collapse, depending on which source the engine takes.
Example
    A flat rope_theta of 10000 beside rope_parameters.rope_theta of 1000000.
Fix
    Remove the wrong one of the two; `--set AXIS=VALUE` shows what the pair does under either.
References
    Model-Optimizer#2221 (rope base off by 100x), speculators#760, DFlash's schema change of 2026-06-18 (S12)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._where import place
from truedraft.contract import AXES

CODE = "TD101"
NAME = "conflict"


def check(subject: Subject) -> Iterator[Finding]:
    """The contract's conflicts; a warning for axes that no drafter of the family needs."""
    contract = subject.contract
    if contract is None:
        return
    for conflict in contract.conflicts:
        needed = contract.family in AXES[conflict.axis].required_by
        first, *others = conflict.sources
        yield Finding(
            code=CODE,
            severity="error" if needed else "warning",
            confidence="certain",
            message=f"sources disagree: {conflict}",
            where=place(others[0]),
            axis=conflict.axis,
            found=others[0].value,
            expected=first.value,
            fix=f"make the files agree, or settle it with {conflict.remedy}",
        )
