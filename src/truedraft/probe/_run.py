"""`probe()`: from a pair and prompts to a verdict per axis."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from truedraft.contract import SCHEMA, Contract, InputError, Sourced, Value
from truedraft.models import HFTarget
from truedraft.models.load_target import make_target
from truedraft.models.third_party import quiet
from truedraft.probe.evidence import first_draft, mean_tau
from truedraft.probe.features import FeatureStore, Tap
from truedraft.probe.hypotheses import Doubt, doubts
from truedraft.probe.sample import Sample, Seconds, exploration, looks
from truedraft.probe.search import Search
from truedraft.probe.verdicts import AxisVerdict, idleness, verdicts
from truedraft.probe.wiring import Wiring
from truedraft.stats import Estimate

if TYPE_CHECKING:
    from truedraft.models import StatefulTarget

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Settings:
    """How a probe is made.

    `axes`: axes or groups to probe (all if empty); `tries`: further candidates. `alpha`: chance of any wrong
    verdict. `budget`: seconds after which no further pass begins. `memory`: bytes of features held in memory;
    a pass may take a quarter as much. `given`: the prompts are whole texts, nothing is generated.
    """

    axes: tuple[str, ...] = ()
    tries: Mapping[str, Sequence[Value]] | None = None
    max_new_tokens: int = 128
    seed: int = 0
    alpha: float = 0.05
    budget: float = 300.0
    memory: int = 2**30
    given: bool = False


@dataclass(frozen=True)
class ProbeReport:
    """All that a probe found.

    `contract`: as resolved, before any change. `best`: values of the wiring that nothing improves, where they
    differ from it. `tau`, `best_tau`: of both; `tau` is `None` while the contract leaves an axis open.
    `first_draft`: share of right first drafts under the best wiring; `idle`: why its drafts prove nothing,
    empty if they do. `asked`: axes and groups that the probe
    was confined to. `given`: the true tokens are those of the texts, whatever the target says of them.
    `repeated`: prompts that are the same as another one, and were left out.
    """

    contract: Contract
    axes: tuple[AxisVerdict, ...]
    best: Mapping[str, Value]
    tau: Estimate | None
    best_tau: Estimate
    prompts: int
    anchors: int
    reach: int
    sweeps: int
    seconds: Seconds
    out_of_time: bool
    first_draft: Estimate
    idle: str = ""
    asked: tuple[str, ...] = ()
    given: bool = False
    repeated: int = 0

    @property
    def contradicted(self) -> tuple[AxisVerdict, ...]:
        """The contradicted axes, the costliest first."""
        found = [verdict for verdict in self.axes if verdict.verdict == "contradicted"]
        return tuple(sorted(found, key=lambda verdict: -verdict.loss))

    @property
    def decided(self) -> bool:
        """Whether any axis got a verdict."""
        return any(verdict.verdict in ("supported", "contradicted") for verdict in self.axes)

    def to_json(self) -> dict[str, Any]:
        """The object that `truedraft probe --json` prints."""
        return {
            "schema": SCHEMA,
            "contract_hash": self.contract.hash,
            "contract": self.contract.to_json(),
            "axes": {verdict.axis: verdict.to_json() for verdict in self.axes},
            "tau": None if self.tau is None else _figure(self.tau),
            "best_tau": _figure(self.best_tau),
            "first_draft": _figure(self.first_draft),
            "idle": self.idle or None,
            "asked": list(self.asked),
            "given": self.given,
            "prompts": self.prompts,
            "repeated_prompts": self.repeated,
            "anchors": self.anchors,
            "longest_context": self.reach,
            "sweeps": self.sweeps,
            "seconds": asdict(self.seconds),
            "out_of_time": self.out_of_time,
        }


def _figure(estimate: Estimate) -> dict[str, Any]:
    interval = estimate.interval()
    return {"mean": estimate.mean, "interval": None if interval is None else list(interval)}


def probe(
    wiring: Wiring,
    model: Any,
    prompts: Sequence[tuple[int, ...]],
    settings: Settings | None = None,
    on_progress: Progress | None = None,
) -> ProbeReport:
    """Let the weights say which conventions they were trained with.

    `model`: the target as transformers loads it. `prompts`: token ids. Raises `InputError` for prompts that
    leave nothing to compare, `UndecidedError` for an open axis with nothing to try.
    """
    given = settings or Settings()
    if not prompts:
        raise InputError("found no prompt, expected at least 2")
    distinct = list(dict.fromkeys(prompts))  # the same text twice is no more evidence than once
    contract = wiring.resolve({}).contract
    taps = needed_taps(contract, doubts(contract, given.axes, given.tries))
    target = tapped(contract, model, taps)
    with FeatureStore(taps, contract.target.hidden_size, given.memory) as store:
        rest = given.memory // 4
        sample = Sample(target, store, distinct, given.max_new_tokens, given.seed, given.given, rest)
        wiring.attach(*sample.tables)
        report = investigate(wiring, sample, given, on_progress)
    return replace(report, repeated=len(prompts) - len(distinct))


def investigate(
    wiring: Wiring, sample: Sample, settings: Settings, on_progress: Progress | None = None
) -> ProbeReport:
    """As `probe`, on a sample that may serve several wirings. `wiring` must have the target's tables."""
    deadline = time.monotonic() + settings.budget
    contract = wiring.resolve({}).contract
    questions = doubts(contract, settings.axes, settings.tries)
    search = Search(wiring, sample, questions, settings.alpha, deadline, _named(on_progress, "comparing"))
    sample.proposals = wiring.wire(search.current).drafter.proposals
    first = exploration(len(sample.prompts))
    if first is not None:
        sample.take(first, _named(on_progress, "target"))
        if sample.chosen:
            search.explore()
    ahead = looks(len(sample.prompts))
    looked = False
    for number, look in enumerate(ahead):
        if looked and (search.settled or search.out_of_time):
            break
        sample.take(look, _named(on_progress, "target"))
        if sample.chosen:  # else all of its texts are too short
            search.look(last=number + 1 == len(ahead))
            looked = True
    sample.require_anchors()
    best = search.scores(search.current)
    return ProbeReport(
        contract=contract,
        axes=verdicts(search),
        best=dict(search.current),
        tau=None if contract.unsettled else mean_tau(search.scores({})),
        best_tau=mean_tau(best),
        prompts=len(sample.chosen),
        anchors=sum(len(anchors) for _, anchors in sample.chosen),
        reach=sample.reach,
        sweeps=search.sweeps,
        seconds=replace(sample.seconds),
        out_of_time=search.out_of_time,
        first_draft=first_draft(best),
        idle=idleness(best),
        asked=settings.axes,
        given=settings.given,
    )


def needed_taps(contract: Contract, questions: Iterable[Doubt]) -> tuple[Tap, ...]:
    """Every tap that some candidate reads."""
    out: dict[Tap, None] = {}
    candidates = {question.axis: question.candidates for question in questions}
    layers = candidates.get("taps.layers") or (contract["taps.layers"],)
    states = candidates.get("taps.state") or (contract["taps.state"],)
    exist = range(-1, contract.target.layers)  # the others are refused when they are wired
    for ids in layers:
        for names in states:
            if not isinstance(ids, tuple) or any(layer not in exist for layer in ids):
                continue
            if isinstance(names, tuple) and len(ids) == len(names):
                out.update(dict.fromkeys(zip(ids, names, strict=True)))  # type: ignore[arg-type]
    return tuple(sorted(out))


def tapped(contract: Contract, model: Any, taps: Sequence[Tap]) -> HFTarget | StatefulTarget:
    """The target with all these taps."""
    axes = dict(contract.axes)
    axes["taps.layers"] = Sourced("value", tuple(layer for layer, _ in taps))
    axes["taps.state"] = Sourced("value", tuple(state for _, state in taps))
    with quiet():
        return make_target(replace(contract, axes=axes), model)


def _named(on_progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    if on_progress is None:
        return None
    return lambda done, total: on_progress(what, done, total)
