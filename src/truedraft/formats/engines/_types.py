"""What an engine reading is made of: facts about one release, each tied to an axis or to a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from truedraft.contract import Contract, Deployment, Source, Sourced, TargetSpec, Value
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import TEXTS, Keys, Kind
from truedraft.formats._nested import decoder_keys

Severity: TypeAlias = Literal["error", "warning", "note"]

ANYTHING = Kind("a value", lambda value: True)


@dataclass(frozen=True)
class EngineId:
    """One release of one engine and one of its runners; engines with a single runner call it `-`."""

    name: str
    version: str
    runner: str = "-"

    def __str__(self) -> str:
        return f"{self.name}:{self.version}" + ("" if self.runner == "-" else f":{self.runner}")


@dataclass(frozen=True)
class Fact:
    """What the release makes of one axis of the files at hand.

    `value` is `None` for an axis on which it has no value. `why`: the mechanism, as a clause. `reference`:
    file and function, or thread. `cost`: what the misreading has been measured to cost, with its source.
    `fix`: the flag or config edit that avoids it. `severity`: of the finding if it differs from the
    contract.
    """

    axis: str
    value: Value
    why: str
    reference: str
    cost: str = ""
    fix: str = ""
    severity: Severity = "error"

    @property
    def sourced(self) -> Sourced:
        """The entry of the engine's contract."""
        return Sourced("value", self.value, Source("family", self.reference), self.why)


@dataclass(frozen=True)
class Refusal:
    """Files that the release does not run: it stops with a message, or crashes.

    `certain`: nothing else is said of the release then; otherwise its facts are told beside the doubt.
    """

    why: str
    where: str
    reference: str
    fix: str = ""
    certain: bool = True


@dataclass(frozen=True)
class Hazard:
    """What the release does to such a pair beyond its conventions.

    `topic`: `block_drop`, the last matched block of the prefix cache is dropped; `prefix_cache`, cached rows
    have no draft context; `defect`, a bug that no axis describes. `severity` is that of the finding.
    """

    topic: Literal["block_drop", "prefix_cache", "defect"]
    why: str
    reference: str
    cost: str = ""
    fix: str = ""
    severity: Severity = "warning"


Rule: TypeAlias = "Callable[[PairFiles], Iterator[Fact | Refusal | Hazard]]"


@dataclass(frozen=True)
class PairFiles:
    """What a rule may look at: both configs as the engine sees them, and the contract to compare with.

    `asked`: drafts per round that the user asks the engine for, or `None` for its default.
    """

    spec: TargetSpec
    target: Checkpoint
    draft: Checkpoint
    native: Contract
    asked: int | None = None

    @property
    def target_keys(self) -> Keys:
        """The target's config."""
        return Keys(self.target)

    @property
    def keys(self) -> Keys:
        """The drafter's config."""
        return Keys(self.draft)

    @property
    def embedded(self) -> bool:
        """Whether the drafter lies inside the target's checkpoint format (DeepSeek-V4)."""
        return self.native.dialect == "deepseek_v4"

    @property
    def layers(self) -> int:
        """Draft layers; 0 where unknown."""
        return self.native.get("backbone.layers") or 0

    @property
    def decoder(self) -> Keys:
        """The keys of the draft decoder: below `transformer_layer_config` in speculators' format."""
        return decoder_keys(self.draft)

    @property
    def speculators(self) -> bool:
        """Whether the drafter is in speculators' format."""
        return self.draft.config.get("speculators_model_type") is not None

    def has(self, *keys: str) -> bool:
        """Whether the draft config states one of the keys, and not as null."""
        return any(self.keys.claim(key, ANYTHING) is not None for key in keys)

    def sliding(self, keys: Keys | None = None) -> tuple[bool, ...] | None:
        """Which draft layers `layer_types` makes slide; `None` without it or if it does not fit."""
        kinds = (keys or self.decoder).get("layer_types", TEXTS)
        if kinds is None or len(kinds) != self.layers:
            return None
        return tuple(kind == "sliding_attention" for kind in kinds)

    def proposals(self) -> int | None:
        """Drafts per round: what the user asks for, or what a trained block yields."""
        trained = self.native.get("block.proposals")
        return self.asked if self.asked is not None else trained


@dataclass(frozen=True)
class Engine:
    """One runner of one release. `state`: what was read to know it. `deployment`: its defaults."""

    id: EngineId
    state: str
    rules: tuple[Rule, ...]
    deployment: Deployment


@dataclass(frozen=True)
class Reading:
    """What one release would make of a pair.

    `contract`: the native one with what the release reads otherwise put in its place. `facts`: what is known
    of the release, by axis; an axis without a fact is taken to be read as trained. `refusals`: reasons why
    the release does not run the pair at all. `hazards`: what else it does to such a pair.
    """

    engine: Engine
    contract: Contract
    facts: Mapping[str, Fact]
    refusals: tuple[Refusal, ...]
    hazards: tuple[Hazard, ...]

    @property
    def refused(self) -> bool:
        """Whether the release surely does not run the pair."""
        return any(refusal.certain for refusal in self.refusals)

    @property
    def deployment(self) -> Deployment:
        """The release's defaults for what no checkpoint states."""
        return self.engine.deployment
