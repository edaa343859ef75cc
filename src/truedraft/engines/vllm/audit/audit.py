"""The audit of one release: every probe on both runners."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from truedraft.contract import AXES, InputError
from truedraft.engines.vllm.audit.beyond import Finding, beyond
from truedraft.engines.vllm.audit.observe import UNSEEN, observe
from truedraft.engines.vllm.audit.probes import PROBES, Probe
from truedraft.engines.vllm.audit.runners import default_runner
from truedraft.engines.vllm.audit.scene import Runner, Scene
from truedraft.engines.vllm.audit.seen import answer
from truedraft.engines.vllm.audit.source import Source
from truedraft.engines.vllm.audit.verdict import Judged, judge
from truedraft.formats import Inspection, inspect
from truedraft.formats.engines import Reading, find_engines, read_engine

SCHEMA = 1
RUNNERS: tuple[Runner, ...] = ("v1", "v2")
TESTED = ("0.20.1", "0.22.1", "0.23.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0", "0.32.0")
"""Releases that the audit was tried on (`tests/data/engines/vllm-audit`); others are audited all the same."""

Step = Callable[[int, int, str | None], None]


@dataclass(frozen=True)
class Audit:
    """`pairs[probe][runner]`; `beyond`: what else the release does; `used`: functions that were called.
    `chosen[probe]`: the runner that the release takes of itself, where it can be asked.

    `definitions`: of the release's source, that were evaluated on the way.
    """

    name: str
    version: str
    pairs: dict[str, dict[str, Judged]]
    chosen: dict[str, str | None]
    beyond: tuple[Finding, ...]
    used: tuple[str, ...] = ()
    definitions: int = 0

    @property
    def tested(self) -> bool:
        """Whether the audit was tried on this very release."""
        return self.version in TESTED

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Where `check --engine` and the release's functions disagree."""
        return tuple(
            f"{runner} {probe}: {text}"
            for probe, runners in self.pairs.items()
            for runner, judged in runners.items()
            for text in judged.contradictions
        )

    def to_json(self) -> dict[str, Any]:
        """`{"schema": 1, "release": …, "axes": {axis: {pair: {runner: cell}}}, …}`."""
        axes: dict[str, Any] = {}
        for axis in AXES:
            rows = {
                probe: {
                    r: judged.cells[axis].to_json() for r, judged in runners.items() if axis in judged.cells
                }
                for probe, runners in self.pairs.items()
            }
            rows = {probe: cells for probe, cells in rows.items() if cells}
            if rows:
                axes[axis] = rows
        return {
            "schema": SCHEMA,
            "release": {"name": self.name, "version": self.version, "tested": self.tested},
            "axes": axes,
            "pairs": {
                probe: {"default_runner": self.chosen.get(probe)}
                | {runner: _pair_json(judged) for runner, judged in runners.items()}
                for probe, runners in self.pairs.items()
            },
            "never_callable": dict(UNSEEN),
            "beyond": [finding.to_json() for finding in self.beyond],
            "contradictions": list(self.contradictions),
            "functions": list(self.used),
        }


def _pair_json(judged: Judged) -> dict[str, Any]:
    out: dict[str, Any] = {"verdict": outcome(judged)}
    if judged.refused:
        out["refused"] = list(judged.refused)
    unrun = [f"{stop.step}: {stop.why}" for stop in judged.stopped if not stop.refused]
    if unrun:
        out["not_callable"] = unrun
    if judged.static_refused:
        out["check_refuses"] = list(judged.static_refused)
    if judged.fixes:
        out["fixes"] = list(judged.fixes)
    return out


MINOR = ("confidence.input", "head.softcap")
"""Axes that change no greedy draft: a confidence head only cuts drafts short, a softcap keeps their order."""


def outcome(judged: Judged) -> str:
    """One word for a pair: `refused`, `differs`, `unclear` (something could not be called) or `honoured`."""
    if judged.refused:
        return "refused"
    verdicts = {cell.verdict for cell in judged.cells.values()}
    if any(cell.differs for axis, cell in judged.cells.items() if axis not in MINOR):
        return "differs"
    return "unclear" if "not callable" in verdicts or judged.stopped or not verdicts else "honoured"


def audit(source: Source, probes: tuple[Probe, ...] = PROBES, step: Step | None = None) -> Audit:
    """Ask a release about all probes. Raises `InputError` if its files cannot be read."""
    pairs: dict[str, dict[str, Judged]] = {probe.name: {} for probe in probes}
    used: dict[str, None] = {}
    chosen: dict[str, str | None] = {}
    findings: list[Finding] = []
    total = len(RUNNERS) * len(probes)
    natives = [native_of(probe) for probe in probes]
    for number, runner in enumerate(RUNNERS):
        scene = Scene(source, runner)
        for i, probe in enumerate(probes):
            if step is not None:
                step(number * len(probes) + i, total, f"{runner} {probe.title}")
            pairs[probe.name][runner] = _judged(scene, probe, natives[i])
            if chosen.get(probe.name) is None and scene.vllm_config.speculative_config is not None:
                chosen[probe.name] = answer(partial(default_runner, scene))
        findings += [entry for entry in beyond(scene) if entry not in findings]
        used |= dict.fromkeys(scene.program.used)
    return Audit(
        source.name, source.version, pairs, chosen, tuple(findings), tuple(sorted(used)), len(source.codes)
    )


def _judged(scene: Scene, probe: Probe, native: Inspection) -> Judged:
    contract = native.contract
    assert contract is not None, f"{probe.name} has no contract: {native.refusal}"
    asked = contract.get("block.proposals") or contract.get("chain.steps") or 3
    found = observe(scene, probe, asked)
    return judge(contract, found, frozenset(scene.reads), _reading(scene, native, asked))


def _reading(scene: Scene, native: Inspection, asked: int) -> Reading | None:
    """What `check --engine` says, for a release that it knows."""
    try:
        (engine,) = find_engines(f"vllm:{scene.source.version}:{scene.runner}")
    except InputError:
        return None
    return read_engine(engine, native, asked) if engine.id.version == scene.source.version else None


def native_of(probe: Probe) -> Inspection:
    """The probe's files, read by truedraft's own readers."""
    with tempfile.TemporaryDirectory(prefix="truedraft-audit-") as name:
        places = []
        for role, config in (("target", probe.target), ("draft", probe.draft or probe.target)):
            place = Path(name) / role
            place.mkdir()
            (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
            places.append(place)
        return inspect(places[0], places[1])
