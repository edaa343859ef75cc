"""A probe's report for a reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from truedraft.cli._style import Style
from truedraft.contract import Value, format_value
from truedraft.probe import AxisVerdict, Candidate, ProbeReport
from truedraft.stats import Estimate

ALIKE = 4
"""Axes with one and the same reason for no verdict, from which they share a line."""

WIDTH = 26
"""Characters of a value in the tables."""


def probe_lines(report: ProbeReport, style: Style, *, table: bool) -> Iterator[str]:
    """The verdicts, one line each; with `table` also every candidate; then figures and what it cost."""
    contract = report.contract
    yield style.bold(
        f"contract {contract.hash}  {contract.family} ({contract.dialect}) on {contract.target.model_type}"
    )
    alike = Counter((v.verdict, v.reason) for v in report.axes if not v.open)
    idle = ("undecided", "not exercised")
    many = {kind for kind, count in alike.items() if count >= ALIKE and kind[0] in idle}
    for verdict in report.axes:
        if verdict.open or (verdict.verdict, verdict.reason) not in many:
            yield from axis_lines(verdict, style)
            if table:
                yield from (f"    {_candidate(candidate)}" for candidate in verdict.candidates)
    for word, reason in sorted(many):
        names = [v.axis for v in report.axes if (v.verdict, v.reason) == (word, reason) and not v.open]
        yield f"{f'{len(names)} axes':29} {style.dim(f'{word:13}')} {reason}: {', '.join(names)}"
    yield ""
    now = "open" if report.tau is None else tau_text(report.tau)
    says = "the contract is not settled" if report.tau is None else "as the contract says"
    yield f"tau          {now} {says}, by replay over {report.anchors} anchors in {report.prompts} prompts"
    if report.given:
        yield "             of the tokens in the given texts: what the target would accept is not known"
    if report.repeated:
        yield f"             {report.repeated} prompts are the same as others and were left out"
    if report.best:
        changed = ", ".join(f"{axis}={format_value(value)}" for axis, value in report.best.items())
        yield f"             {tau_text(report.best_tau)} with {changed}"
    took = report.seconds
    yield style.dim(
        f"cost         {took.passes} drafter passes over {took.anchors} anchors {took.drafter:.1f} s; "
        f"target: {took.tokens} tokens generated {took.generation:.1f} s, one pass over {took.rows} rows "
        f"{took.features:.1f} s; longest context {report.reach} tokens"
    )
    if report.out_of_time:
        yield style.warn("the budget ended before the search did; --budget-s gives it more")


def axis_lines(verdict: AxisVerdict, style: Style) -> Iterator[str]:
    """The axis, its verdict and value, and the reason."""
    word = f"{verdict.verdict:13}"
    if verdict.verdict == "contradicted":
        word = style.warn(word)
    elif verdict.verdict != "supported":
        word = style.dim(word)
    value = f"open, best {format_value(verdict.best)}" if verdict.open else format_value(verdict.value)
    yield f"{verdict.axis:29} {word} {cut(value, WIDTH):{WIDTH}} {verdict.reason}"


def _candidate(candidate: Candidate) -> str:
    value = f"{cut(format_value(candidate.value), WIDTH):{WIDTH}} {candidate.standing:16}"
    if candidate.tau is None:
        return f"{value} {candidate.why}".rstrip()
    text = f"{value} tau {tau_text(candidate.tau)}"
    if candidate.log_q is None or candidate.accepted is None:
        return text
    return f"{text}  {_signed(candidate.accepted)} drafts  {_signed(candidate.log_q)} nats"


def tau_text(estimate: Estimate) -> str:
    """`3.41 [3.20, 3.62]`, the interval over prompts."""
    interval = estimate.interval()
    return f"{estimate.mean:.2f}" + ("" if interval is None else f" [{interval[0]:.2f}, {interval[1]:.2f}]")


def _signed(estimate: Estimate) -> str:
    interval = estimate.interval()
    return f"{estimate.mean:+.3f}" + (
        "" if interval is None else f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    )


def cut(text: str, width: int) -> str:
    """The text, shortened in the middle of nothing: at most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def as_setting(axis: str, value: Value) -> str:
    """The option that would apply a value."""
    return f"--set {axis}={format_value(value)}"
