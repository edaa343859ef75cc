"""An arm was measured in one boot of the engine only.

What it finds
    Arms whose records name fewer than two boots: a warning if there are several arms to compare, a note for
    one alone.
Why it matters
    Autotuned kernels, graph capture and reduction order change near-ties, and with them text and acceptance,
    from boot to boot. More prompts do not average that out.
In acceptance
    Speculative speed spread by 11 % over restarts in one report. In a simulation with 1.2 % between boots,
    comparing two arms of one boot each at a nominal 5 % gave false alarms in 21 to 23 % of cases.
Example
    Two arms, each from one server that was started once.
Fix
    Restart the engine between repeats and interleave the arms; 3 boots per arm show differences of 4.6 %, 5
    of 3.1 %. Write the boot into each record. Until then the difference is an estimate without a verdict.
References
    vllm#53436 (S76), imp#1011, measurement notes section 3
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, where

CODE = "TD505"
NAME = "single-boot"


def check(subject: Subject) -> Iterator[Finding]:
    """Boots by arm; records that name none count as one boot."""
    found = arms(subject)
    for arm, records in found:
        boots = {record.boot for record in records}
        if len(boots) < 2:
            several = len(found) > 1
            yield Finding(
                code=CODE,
                severity="warning" if several else "note",
                confidence="certain",
                message="one boot per arm gives an estimate" + (", no verdict on a difference" * several),
                where=where(arm),
                found=next(iter(boots)) or "no boot named",
                expected="2 boots or more",
                fix="restart the engine and repeat, with the arms in turn",
                references=("vllm#53436",),
            )
