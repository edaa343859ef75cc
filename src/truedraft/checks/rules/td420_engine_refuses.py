"""An engine does not run the pair.

What it finds
    A release that stops with a message, or crashes, on files like these.
Why it matters
    It is loud, so it is cheap; but the message seldom says which key or flag would help.
In acceptance
    Not at all: nothing is served.
Example
    A drafter with sliding and full layers on vllm:0.32.0:v1, which needs the V2 runner.
Fix
    The finding names the flag, edit or release.
References
    vllm#47914, speculators#570, sglang#32204, vllm#48113 (S06, S14, S95 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.formats.engines import Reading, Refusal

CODE = "TD420"
NAME = "engine-refuses"


def _severity(subject: Subject, reading: Reading, refusal: Refusal) -> Severity:
    if _other_runner(subject, reading):
        return "note"
    return "error" if refusal.certain else "warning"


def _other_runner(subject: Subject, reading: Reading) -> bool:
    """Whether another runner of the same release was asked about and runs the pair."""
    release = (reading.engine.id.name, reading.engine.id.version)
    others = [r for r in subject.readings if r is not reading]
    return any((r.engine.id.name, r.engine.id.version) == release and not r.refused for r in others)


def check(subject: Subject) -> Iterator[Finding]:
    """Refusals of the engines asked about."""
    for reading in subject.readings:
        for refusal in reading.refusals:
            yield Finding(
                code=CODE,
                severity=_severity(subject, reading, refusal),
                confidence="certain" if refusal.certain else "possible",
                message=f"{reading.engine.id} does not run this pair: {refusal.why}",
                where=refusal.where,
                fix=refusal.fix,
                references=(refusal.reference,),
            )
