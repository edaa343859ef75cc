"""From a pair's files and a release to the contract that the release would make of them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from truedraft.contract import AXES
from truedraft.formats._resolve import Inspection
from truedraft.formats.engines._types import Engine, Fact, Hazard, PairFiles, Reading, Refusal


def read_engine(engine: Engine, pair: Inspection, asked: int | None = None) -> Reading:
    """The reading of a pair that has a contract; the first fact about an axis wins.

    `asked`: drafts per round that the engine is asked for, or `None` for its default.
    """
    if pair.contract is None:
        raise ValueError("an engine reading needs a pair that has a contract")
    files = PairFiles(pair.spec, pair.target, pair.draft, pair.contract, asked)
    facts: dict[str, Fact] = {}
    refusals: list[Refusal] = []
    hazards: list[Hazard] = []
    for rule in engine.rules:
        for found in rule(files):
            if isinstance(found, Refusal):
                refusals.append(found)
            elif isinstance(found, Hazard):
                hazards.append(found)
            else:
                facts.setdefault(found.axis, found)
    axes = dict(pair.contract.axes)
    for name, fact in facts.items():
        axes[name] = replace(fact.sourced, value=AXES[name].normal(fact.value))
    contract = replace(pair.contract, dialect=str(engine.id), axes=axes, conflicts=())
    return Reading(engine, contract, MappingProxyType(facts), tuple(refusals), tuple(hazards))
