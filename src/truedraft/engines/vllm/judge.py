"""From a live engine to findings: the rules of `check`, on what runs instead of on what would."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from truedraft.checks import SEVERITIES, Finding, Subject, Usage, run_checks
from truedraft.contract import Contract, Deployment
from truedraft.engines.vllm import tensors
from truedraft.engines.vllm.effective import Effective, read_effective
from truedraft.engines.vllm.facts import LiveEngine
from truedraft.engines.vllm.release import known_release
from truedraft.formats import Inspection
from truedraft.formats.engines import Engine, EngineId, Hazard, Reading, read_engine

RULES = ("TD40", "TD41", "TD42")
STATIC_RULES = ("TD1", "TD2", "TD4")
K_NORM = 0.02
"""Largest deviation of a correct norm, relative to the largest key: bf16 rounds to 2**-8."""


@dataclass(frozen=True)
class Judgement:
    """`findings`: gravest first, without notes."""

    effective: Effective
    findings: tuple[Finding, ...]


def judge(pair: Inspection, live: LiveEngine) -> Judgement:
    """Compare the contract of a pair with what the live engine runs."""
    assert pair.contract is not None
    engine = known_release(live.version, live.runner)
    known = None if engine is None else read_engine(engine, pair, live.proposals)
    effective = read_effective(pair.contract, live, known)
    reading = Reading(
        _engine(live),
        effective.comparable,
        MappingProxyType(dict(effective.facts)),
        refusals=(),
        hazards=_hazards(live, known),
    )
    usage = Usage(speculative_tokens=live.proposals if live.width is not None else None)
    report = run_checks(Subject(pair, readings=(reading,), usage=usage), select=RULES)
    found = (*report.findings, *tensors.findings(live, pair.draft))
    return Judgement(effective, tuple(sorted(found, key=_gravity)))


def judge_files(pair: Inspection, version: str, runner: str, asked: int | None) -> tuple[Finding, ...]:
    """What `check` says of the files, and of the release where its source is known."""
    engine = known_release(version, runner)
    readings = () if engine is None else (read_engine(engine, pair, asked),)
    return run_checks(Subject(pair, readings=readings, usage=Usage(asked)), select=STATIC_RULES).findings


def _gravity(finding: Finding) -> tuple[int, str]:
    return SEVERITIES.index(finding.severity), finding.code


def _engine(live: LiveEngine) -> Engine:
    state = "its objects after load_model"
    return Engine(EngineId("vllm", live.version, live.runner), state, (), Deployment(runner=live.runner))


def _hazards(live: LiveEngine, known: Reading | None) -> tuple[Hazard, ...]:
    """Those of the release whose setting is on, and the defect of the fused norm where it was measured."""
    kept = [hazard for hazard in (known.hazards if known else ()) if hazard.topic == "block_drop"]
    out = kept if live.block_drop else []
    if live.k_norm_error is not None and live.k_norm_error > K_NORM:
        why = (
            "context keys of every draft layer are normed with the first layer's k_norm: "
            f"off by {live.k_norm_error:.0%} of the largest key on random keys"
        )
        cost = "136 accepted in 242 rounds instead of 144 in 234; a collapse on XPU (vllm#56431)"
        at = f"vLLM {live.version} model_executor/models/qwen3_dflash.py _normalize_context_k"
        out = [*out, Hazard("defect", why, at, cost, "TRUEDRAFT=fix", "error")]
    return tuple(out)


def settled(contract: Contract) -> str:
    """The contract in a few words."""
    return f"contract {contract.hash} ({contract.family}, {contract.dialect})"
