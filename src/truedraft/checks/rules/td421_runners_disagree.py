"""Two runners of one release read the pair differently.

What it finds
    An axis that runner V1 and runner V2 of the same release resolve to different values.
Why it matters
    At most one of them can be right, an environment variable decides which is used, and no log compares them.
In acceptance
    "V1 normal, V2 about 0" in reports; the same checkpoint, prompts and release.
Example
    vllm-jasl:b5c0d43b: V1 captures the outputs of 39/40/41, V2 those of 40/41/42.
Fix
    Choose the runner that agrees with the contract (`VLLM_USE_V2_MODEL_RUNNER`).
References
    vllm#49559, vllm#43010, vllm#40551, the founding report on DSpark's V1 runner (S02, S64, S75 in the field
    log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.contract import diff, format_value
from truedraft.formats.engines import Reading

CODE = "TD421"
NAME = "runners-disagree"


def check(subject: Subject) -> Iterator[Finding]:
    """Differences between a reading that was asked for and those of the same release's other runners."""
    seen: set[frozenset[str]] = set()
    for reading in subject.readings:
        for other in (*subject.readings, *subject.siblings):
            release = (other.engine.id.name, other.engine.id.version)
            both = frozenset((str(reading.engine.id), str(other.engine.id)))
            same = release == (reading.engine.id.name, reading.engine.id.version)
            if same and other is not reading and both not in seen:
                seen.add(both)
                yield from _compare(subject, reading, other, asked=other in subject.readings)


def _compare(subject: Subject, reading: Reading, other: Reading, *, asked: bool) -> Iterator[Finding]:
    native = subject.contract
    if native is None or reading.refused or other.refused:
        return
    for entry in diff(reading.contract, other.contract):
        says = native.axes[entry.axis]
        right = [r.engine.id for r in (reading, other) if r.contract.axes[entry.axis].value == says.value]
        at_risk = asked or reading.contract.axes[entry.axis].value != says.value
        values = (
            f"{r.engine.id} {format_value(r.contract.axes[entry.axis].value)}" for r in (reading, other)
        )
        yield Finding(
            code=CODE,
            severity="warning" if at_risk else "note",
            confidence="certain",
            message=f"two runners of one release disagree about {entry.axis}: {', '.join(values)}",
            where="draft/config.json",
            axis=entry.axis,
            found=next((s.value for s in (entry.left, entry.right) if s.value != says.value), None),
            expected=says.value if says.state == "value" else None,
            fix=f"use {right[0]}, which agrees with the contract"
            if right
            else "neither agrees with the contract",
            references=tuple(
                r.facts[entry.axis].reference for r in (reading, other) if entry.axis in r.facts
            ),
        )
