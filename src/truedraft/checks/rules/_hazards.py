"""What the rules about engines' hazards share."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject


def hazards(subject: Subject, code: str, topic: str) -> Iterator[Finding]:
    """A finding per hazard of a topic, for each engine that was asked about and runs the pair."""
    for reading in subject.readings:
        for hazard in reading.hazards:
            if hazard.topic == topic and not reading.refused:
                cost = f"; cost: {hazard.cost}" if hazard.cost else ""
                yield Finding(
                    code=code,
                    severity=hazard.severity,
                    confidence="possible" if topic == "prefix_cache" else "likely",
                    message=f"{reading.engine.id}: {hazard.why}{cost}",
                    where="draft/config.json",
                    fix=hazard.fix,
                    references=(hazard.reference,),
                )
