"""`Group`: observations that mean the same, their pool, and the figures that they state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from truedraft.contract import AcceptanceRecord
from truedraft.measure.sources.observation import Figure, Observation, Scope
from truedraft.measure.sources.pool import Pool


@dataclass
class Group:
    """Observations that mean the same. `series`: of cumulative figures only the last statement counts."""

    definition: str
    scope: Scope
    population: str
    source: str
    pool: Pool
    series: dict[str, Observation] = field(default_factory=dict)
    records: list[AcceptanceRecord] = field(default_factory=list)
    stated: list[tuple[str, Figure]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """An entry of `groups`."""
        mean = self.pool.mean_of_lengths()
        return {
            "source": self.source,
            "scope": self.scope,
            "population": self.population,
            "observations": self.pool.observations,
            "acceptance": self.pool.pooled().to_json(),
            "stated": [stated_json(where, figure) for where, figure in self.stated]
            + ([] if mean is None else [stated_json("", mean)]),
        }


def stated_json(where: str, figure: Figure) -> dict[str, Any]:
    """A figure as printed, with its precision and definition."""
    return {
        "name": figure.name,
        "value": figure.value,
        "precision": figure.step,
        "definition": figure.definition,
        "where": where,
    }
