"""From a live engine to a contract: what it will really run, axis by axis, as far as it was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from truedraft.contract import AXES, Contract, Sourced, unknown
from truedraft.engines.vllm.effective_axes import seen_axes
from truedraft.engines.vllm.facts import LiveEngine
from truedraft.engines.vllm.seen import Seen
from truedraft.formats.engines import Fact, Reading


@dataclass(frozen=True)
class Effective:
    """What a live engine runs. `facts`: the axes that were seen, each with how."""

    native: Contract
    facts: Mapping[str, Fact]
    dialect: str

    @property
    def contract(self) -> Contract:
        """The live contract; axes that were not seen are unknown."""
        unseen = unknown("not seen in the live engine")
        axes = {
            name: self._sourced(name) if name in self.facts else old if old.state != "value" else unseen
            for name, old in self.native.axes.items()
        }
        return replace(self.native, dialect=self.dialect, axes=axes, conflicts=(), unread_keys=())

    @property
    def comparable(self) -> Contract:
        """As `contract`, with the native value where nothing was seen: for `diff(native, …)`."""
        axes = {
            name: self._sourced(name) if name in self.facts else old for name, old in self.native.axes.items()
        }
        return replace(self.native, dialect=self.dialect, axes=axes, conflicts=())

    def _sourced(self, name: str) -> Sourced:
        fact = self.facts[name]
        return replace(fact.sourced, value=AXES[name].normal(fact.value))


def read_effective(native: Contract, live: LiveEngine, known: Reading | None) -> Effective:
    """The live contract. `known`: what is known of this release from its source; where it predicts the
    live value, its words explain it.
    """
    facts: dict[str, Fact] = {}
    for seen in seen_axes(native, live):
        if native.axes[seen.axis].state != "not_applicable":
            facts.setdefault(seen.axis, _explained(seen, live, known))
    return Effective(native, MappingProxyType(facts), f"vllm:{live.version}:{live.runner}")


def _explained(seen: Seen, live: LiveEngine, known: Reading | None) -> Fact:
    told = None if known is None else known.facts.get(seen.axis)
    value = AXES[seen.axis].normal(seen.value)
    at = f"vLLM {live.version} {seen.where}"
    if told is not None and AXES[seen.axis].normal(told.value) == value:
        severity = told.severity if seen.severity is None else seen.severity
        return replace(told, value=value, reference=f"{told.reference}, seen in {at}", severity=severity)
    fix = told.fix if told is not None else ""
    return Fact(seen.axis, value, seen.why, at, fix=fix, severity=seen.severity or "error")
