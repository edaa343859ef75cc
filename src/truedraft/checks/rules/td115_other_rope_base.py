"""The drafter rotates with another base than the target.

What it finds
    A rope_theta that differs from the target's (note), as a drafter may well have been trained.
Why it matters
    Drafters are trained with a base of their own and engines that take the target's are wrong; but a base
    that nobody meant (a default of 10000 that filled an absent key) looks the same.
In acceptance
    None if it was trained so; a base off by 100 lowers late positions.
Example
    theta 10000 in a drafter of a target with 1000000.
Fix
    Ask the producer, or let the probe decide. Do not edit it to the target's.
References
    Model-Optimizer#1621, Model-Optimizer#2221 (S12, S13 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._where import place
from truedraft.formats.traps import target_rope_base

CODE = "TD115"
NAME = "other-rope-base"


def check(subject: Subject) -> Iterator[Finding]:
    """A base that differs from the target's."""
    contract = subject.contract
    if contract is None or contract.axes["stages.layers"].state != "not_applicable":
        return
    base = target_rope_base(subject.pair.target)
    own = set(contract.tuple_of("rope.theta"))
    if base is not None and own and own != {base}:
        yield Finding(
            code=CODE,
            severity="note",
            confidence="possible",
            message="the drafter's rope base is not the target's",
            where=place(contract.axes["rope.theta"]),
            axis="rope.theta",
            found=contract.get("rope.theta"),
            expected=base,
            fix="none if it was trained so",
        )
