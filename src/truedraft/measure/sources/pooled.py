"""`Pooled`: figures of a pool of observations, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pooled:
    """Figures of a pool. `basis`: `counts` (stated), `derived` (the only counts that agree with the printed
    figures), `bounds` (several do: `tau` is the middle of `tau_between`) or `printed` (no counts at all).

    `tau` is `None` where nothing determines it: no round, or lengths whose weights are unknown.
    """

    definition: str
    basis: str
    tau: float | None
    tau_between: tuple[float, float] | None
    rounds: int | None
    rounds_between: tuple[int, int] | None
    proposed: int | None
    accepted: int | None
    survival: tuple[float, ...]
    conditional: tuple[float | None, ...]

    def to_json(self) -> dict[str, Any]:
        """The `acceptance` object of `truedraft measure --json`."""
        return {
            "tau": self.tau,
            "definition": self.definition,
            "basis": self.basis,
            "rounds": self.rounds,
            "proposed": self.proposed,
            "accepted": self.accepted,
            "survival": list(self.survival),
            "conditional": list(self.conditional),
            **({} if self.tau_between is None else {"tau_between": list(self.tau_between)}),
            **({} if self.rounds_between is None else {"rounds_between": list(self.rounds_between)}),
        }
