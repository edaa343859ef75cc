"""Acceptance records by arm: what the rules about measurements share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from truedraft.checks._subject import Subject
from truedraft.contract import AcceptanceRecord, acceptance

Arm = tuple[str, list[AcceptanceRecord]]


def arms(subject: Subject) -> list[Arm]:
    """The records of each arm, in the order of the file."""
    found: dict[str, list[AcceptanceRecord]] = {}
    for record in subject.records:
        found.setdefault(record.arm, []).append(record)
    return list(found.items())


def where(arm: str) -> str:
    """What a finding about an arm is about."""
    return f"records, arm {arm!r:.60}"


def rounds(records: Iterable[AcceptanceRecord]) -> Iterator[tuple[int, int, int]]:
    """Proposed drafts, accepted ones and the number of such rounds, of all rounds that proposed any."""
    for record in records:
        for (proposed, accepted), count in record.table.items():
            if proposed:
                yield proposed, accepted, count


def pooled_tau(records: Sequence[AcceptanceRecord]) -> str:
    """Pooled acceptance length with two decimals; `-` without rounds."""
    tau = acceptance(records).tau
    return "-" if tau is None else f"{tau:.2f}"
