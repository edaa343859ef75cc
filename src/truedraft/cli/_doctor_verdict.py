"""The doctor's closing verdict: one sentence, and the first thing to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from truedraft.checks import Finding, Report
from truedraft.contract import Contract, Source, Value, format_value
from truedraft.measure import RunReport
from truedraft.probe import WORKING, AxisVerdict, ProbeReport

State: TypeAlias = Literal["not lossless", "contradicted", "engine", "files", "open", "undecided", "sound"]

EXIT_CODES: dict[State, int] = {
    "not lossless": 1,
    "contradicted": 1,
    "engine": 1,
    "files": 1,
    "open": 0,
    "undecided": 3,
    "sound": 0,
}


@dataclass(frozen=True)
class Closing:
    """What is the matter, in a sentence, and what to do first."""

    state: State
    verdict: str
    first: str


def closing(
    contract: Contract, bare: Contract | None, checks: Report, run: RunReport, probe: ProbeReport
) -> Closing:
    """The gravest matter first: output, then weights against contract, then engines and files.

    `bare`: the contract that the files make without overrides, if they make one.
    """
    errors = [finding for finding in checks.findings if finding.severity == "error"]
    if not run.lossless.ok:
        return Closing(
            "not lossless",
            f"{run.lossless.identical} of {run.lossless.of} outputs equal plain decoding: "
            "no figure of acceptance means anything before all do",
            "look at the first difference (`truedraft run`): the target's forward over many rows is not its "
            "forward over one",
        )
    if probe.contradicted:
        return _contradicted(contract, bare, probe)
    if errors:
        return _broken(errors, probe)
    if not probe.decided:
        return Closing("undecided", f"the weights decide nothing here: {_nothing(probe)}", _next(probe))
    settled = [v for v in probe.axes if v.open and v.verdict == "supported"]
    missing = [v for v in probe.axes if v.open and v.verdict != "supported"]
    if missing:
        names = ", ".join(v.axis for v in missing)
        return Closing(
            "undecided",
            f"no file settles {names}, and the weights do not decide it here: {missing[0].reason}",
            _next(probe),
        )
    if settled:
        values = ", ".join(f"{v.axis} {format_value(v.best)}" for v in settled)
        return Closing(
            "open",
            f"the files leave open what the weights decide: {values}",
            " ".join(f"--set {v.axis}={format_value(v.best)}" for v in settled)
            + ", or `truedraft probe --json > p.json` and `--measured p.json`",
        )
    return _sound(probe)


def _sound(probe: ProbeReport) -> Closing:
    supported = sum(v.verdict == "supported" for v in probe.axes)
    figures = (
        f"output lossless, {supported} of {len(probe.axes)} axes supported by the weights, none contradicted"
    )
    if probe.out_of_time:
        return Closing("sound", f"no fault found before the time ran out: {figures}", _next(probe))
    begin = "the pair runs as it was trained"
    if probe.asked:
        begin = f"no fault found in {', '.join(probe.asked)}, all that was asked"
    return Closing(
        "sound",
        f"{begin}: {figures}",
        "nothing to do; `truedraft check --engine NAME:VERSION` says what a serving engine would make of it",
    )


def _nothing(probe: ProbeReport) -> str:
    """Why no axis got a verdict."""
    reasons = [v.reason for word in ("undecided", "not exercised") for v in probe.axes if v.verdict == word]
    out_of_time = "the time ran out" if probe.out_of_time else ""
    return out_of_time or probe.idle or next(iter(reasons), "no axis has another value to try")


def _contradicted(contract: Contract, bare: Contract | None, probe: ProbeReport) -> Closing:
    axes = probe.contradicted
    one = "axis" if len(axes) == 1 else "axes"
    before = "" if probe.tau is None else f"tau {probe.tau.mean:.2f} as stated, "
    return Closing(
        "contradicted",
        f"the weights were trained with other conventions in {len(axes)} {one}: "
        + "; ".join(f"{v.axis} {format_value(v.best)}, not {format_value(v.value)}" for v in axes)
        + f" ({before}{probe.best_tau.mean:.2f} with {'that' if len(axes) == 1 else 'these'})",
        "; ".join(_mends(contract, bare, axes)),
    )


def _mends(contract: Contract, bare: Contract | None, axes: Sequence[AxisVerdict]) -> Iterator[str]:
    """What to change, override by override and file by file; `bare`: the contract without overrides."""
    sources = {v.axis: contract.axes[v.axis].source for v in axes}
    kinds = {axis: "" if source is None else source.kind for axis, source in sources.items()}
    needless = [
        v for v in axes if kinds[v.axis] == "override" and bare is not None and bare.get(v.axis) == v.best
    ]
    if needless:
        names = " and ".join(_where(sources[v.axis]) for v in needless)
        yield f"leave out {names}: the files have the trained value{'s' if len(needless) > 1 else ''}"
    for verdict in axes:
        if kinds[verdict.axis] == "override" and verdict not in needless:
            setting = _setting(verdict.axis, verdict.best)
            yield f"replace {_where(sources[verdict.axis])} by {setting}"
    rest = [v for v in axes if kinds[v.axis] != "override"]
    stated = [_where(sources[v.axis]) for v in rest if kinds[v.axis] == "stated"]
    if rest:
        run = "run with " + " ".join(_setting(v.axis, v.best) for v in rest)
        yield f"correct {', '.join(stated)}, or {run}" if stated else run


def _where(source: Source | None) -> str:
    return "" if source is None else source.where


def _setting(axis: str, value: Value) -> str:
    return f"--set {axis}={format_value(value)}"


def _broken(errors: list[Finding], probe: ProbeReport) -> Closing:
    first = errors[0]
    engine = first.code.startswith("TD4")
    weights = "the weights support the contract" if probe.decided else "the weights decide nothing here"
    what = "the engine would not run it so" if engine else "the files are wrong"
    return Closing(
        "engine" if engine else "files",
        f"{weights}, but {what}: {first.code} {first.message}",
        first.fix or f"`truedraft explain {first.code}`",
    )


def _next(probe: ProbeReport) -> str:
    """What would let the weights decide."""
    if probe.out_of_time:
        return "give it more time (--budget-s), or ask for fewer axes (--axes)"
    if probe.idle and probe.first_draft.mean < WORKING:
        return (
            "make sure that TARGET is the model that this drafter was trained for, and that the prompts are "
            "like its training texts (--prompts FILE), chat template included"
        )
    return (
        "give more and longer prompts like those that the drafter was trained on (--prompts FILE; "
        f"there were {probe.prompts}, the longest context had {probe.reach} tokens)"
    )
