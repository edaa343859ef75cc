"""From boots to what an experiment says: outputs against plain decoding, tau per arm, differences of arms."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from truedraft import stats
from truedraft.contract import AcceptanceRecord
from truedraft.engines.vllm.experiment.arms import NATIVE
from truedraft.engines.vllm.experiment.result import BootResult, Request
from truedraft.engines.vllm.experiment.setup import Setup

COLD, REPEATED = "cold", "repeated"


@dataclass(frozen=True)
class Divergence:
    """An output that left plain decoding, or ended elsewhere, at an index of its tokens."""

    arm: str
    block: int
    prompt_id: str
    number: int
    position: int


@dataclass(frozen=True)
class Side:
    """One arm, in one kind of pass (`cold`, `repeated`; empty where prompts are decoded once).

    `estimate`: pooled tau with its interval; `None` without a prompt that may be counted. `cached`,
    `prompt_tokens`: means over requests.
    """

    arm: str
    passes: str
    counted: stats.Arm
    estimate: stats.ArmEstimate | None
    cached: float
    prompt_tokens: float

    def covers(self, number: int) -> bool:
        """Whether it counts the requests of a pass, from 0."""
        return not self.passes or (self.passes == REPEATED) == (number > 0)

    @property
    def name(self) -> str:
        """The arm and its pass."""
        return f"{self.arm} ({self.passes})" if self.passes else self.arm


@dataclass(frozen=True)
class Change:
    """A difference of tau. `basis`: what the interval is over, `boots`, or `prompts` where boots are as good
    as one. `p`: over boots only.
    """

    value: float
    interval: tuple[float, float] | None
    basis: str
    p: float | None


@dataclass(frozen=True)
class Difference:
    """Tau of `b` - tau of `a`, over all prompts and per category of prompts, where they have any."""

    a: Side
    b: Side
    change: Change
    categories: Mapping[str, Change]
    comparison: stats.Comparison


@dataclass(frozen=True)
class Outcome:
    """`results`: plain decoding first. `left_out`: prompts whose output differs from it in some boot.
    `base`: the arm that others are compared with.
    """

    results: tuple[BootResult, ...]
    records: tuple[AcceptanceRecord, ...]
    divergences: tuple[Divergence, ...]
    left_out: tuple[str, ...]
    sides: tuple[Side, ...]
    base: str
    differences: tuple[Difference, ...]

    @property
    def said(self) -> dict[str, tuple[str, ...]]:
        """Arm -> what the plugin changed, before and after, and what it left."""
        found: dict[str, list[str]] = {}
        for result in self.results[1:]:
            lines = [line for line in result.said if re.match(r"fix (?!:)\D|TD\d", line)]
            found.setdefault(result.arm, [])
            found[result.arm] += [line for line in lines if line not in found[result.arm]]
        return {arm: tuple(lines) for arm, lines in found.items()}

    @property
    def idle(self) -> tuple[str, ...]:
        """Sides whose boots all counted the same."""
        return tuple(side.name for side in self.sides if side.counted.repeats_itself)


def outcome(setup: Setup, results: Sequence[BootResult]) -> Outcome:
    """Check outputs, count what may be counted, compare. `results`: as `run_boots` gives them."""
    plain, *boots = results
    divergences = tuple(entry for boot in boots for entry in _divergences(plain, boot))
    left_out = tuple(dict.fromkeys(entry.prompt_id for entry in divergences))
    records = tuple(
        _record(setup, boot, request)
        for boot in boots
        for request in boot.requests
        if request.prompt_id not in left_out
    )
    kinds = (COLD, REPEATED) if setup.repeat > 1 else ("",)
    sides = tuple(_side(arm.name, kind, records) for arm in setup.arms for kind in kinds)
    names = [arm.name for arm in setup.arms]
    base = NATIVE if NATIVE in names else names[0]
    return Outcome(
        tuple(results), records, divergences, left_out, sides, base, tuple(_differences(sides, base))
    )


def _divergences(plain: BootResult, boot: BootResult) -> Iterator[Divergence]:
    for ours, theirs in zip(plain.requests, boot.requests, strict=True):
        if ours.output != theirs.output:
            pairs = enumerate(zip(ours.output, theirs.output, strict=False))
            shorter = min(len(ours.output), len(theirs.output))
            position = next((i for i, (a, b) in pairs if a != b), shorter)
            yield Divergence(boot.arm, boot.block, theirs.prompt_id, theirs.number, position)


def _record(setup: Setup, boot: BootResult, request: Request) -> AcceptanceRecord:
    prompt = next(prompt for prompt in setup.prompts if prompt.id == request.prompt_id)
    text = " ".join(map(str, request.output))
    return AcceptanceRecord(
        request_id=f"{boot.arm} {boot.block} {prompt.id} {request.number}",
        prompt_id=prompt.id,
        arm=boot.arm if setup.repeat == 1 else f"{boot.arm} ({REPEATED if request.number else COLD})",
        proposed=(),
        accepted=(),
        histogram=request.histogram(),
        prompt_tokens=len(prompt.tokens),
        cached_tokens=request.cached_tokens,
        output_tokens=len(request.output),
        output_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
        K=len(request.reached) or setup.k,
        contract_hash=setup.contract_hash,
        batch_size=1,
        started=request.started,
        boot=str(boot.block),
        engine="vllm",
        version=boot.vllm,
        runner=boot.runner,
        truncated="engine",
        temperature=0.0,
        category=prompt.category,
    )


def _side(arm: str, kind: str, records: Sequence[AcceptanceRecord]) -> Side:
    name = f"{arm} ({kind})" if kind else arm
    own = [record for record in records if record.arm == name]
    counted = stats.Arm(name, own)
    prompts = sorted(counted.prompts_of_all_boots())
    return Side(
        arm,
        kind,
        counted,
        stats.tau_of(counted, prompts) if prompts else None,
        sum(record.cached_tokens for record in own) / len(own) if own else 0.0,
        sum(record.prompt_tokens for record in own) / len(own) if own else 0.0,
    )


def _differences(sides: Sequence[Side], base: str) -> Iterator[Difference]:
    """Every two arms in the same kind of pass, the base first, and repeated to cold in every arm."""
    counted = [side for side in sides if side.estimate]
    in_order = sorted(counted, key=lambda side: side.arm != base)
    for a, b in combinations(in_order, 2):
        if a.passes == b.passes:
            yield _difference(a, b)
    for a, b in combinations(counted, 2):
        if a.arm == b.arm:
            yield _difference(a, b)


def _difference(a: Side, b: Side) -> Difference:
    kinds = sorted({*a.counted.categories.values(), *b.counted.categories.values()} - {""})
    found = stats.compare(a.counted, b.counted, by_category=bool(kinds))
    changes = {kind: _change(a, b, found, kind) for kind in kinds if _prompts(a, found, kind)}
    return Difference(a, b, _change(a, b, found, None), changes, found)


def _change(a: Side, b: Side, found: stats.Comparison, kind: str | None) -> Change:
    row = found.row("tau", category=kind)
    if row.test is not None:
        return Change(row.test.difference, row.test.interval(), "boots", row.p)
    mean = stats.over_prompts(a.counted, b.counted, _prompts(a, found, kind))
    return Change(mean.mean, mean.interval(), "prompts", None)


def _prompts(a: Side, found: stats.Comparison, kind: str | None) -> list[str]:
    return [name for name in found.design.prompts if kind is None or a.counted.categories[name] == kind]
