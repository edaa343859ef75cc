"""A compared trace as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from truedraft.cli._printable import printable
from truedraft.cli._style import Style

if TYPE_CHECKING:
    from truedraft.trace import Outcome, TraceDiff


def trace_lines(found: TraceDiff, style: Style) -> Iterator[str]:
    """The report, line by line."""
    about, contract = found.about, found.contract
    yield printable(
        f"{about.engine} {about.version} ({about.runner}), {about.method}, {about.rounds} rounds of "
        f"{len(about.prompts)} requests; contract {contract.hash} ({contract.family}, {contract.dialect})"
    )
    first = found.first
    if first is None:
        yield style.bold("every step that the trace shows is as the contract says")
    else:
        yield style.bold(f"first difference: {sentence(first)}")
        for other in found.outcomes:
            if other.differs and other is not first:
                yield f"also: {sentence(other)}"
    yield ""
    yield style.dim(f"{'step':<34}{'rows':>7}{'unequal':>9}{'largest error':>15}")
    for outcome in found.outcomes:
        line = f"{outcome.where:<34}{outcome.rows:>7}{outcome.unequal:>9}{share(outcome.worst):>15}"
        yield style.warn(line) if outcome.differs else line
    yield ""
    if found.absent:
        yield f"not in the trace: {', '.join(found.absent)}"
        if "attention" in found.absent:
            yield "  layers are seen while they run eagerly on one rank (vLLM: --enforce-eager)"
    if found.unseen:
        yield f"{found.unseen} leading context rows came from a cache and were not seen"
    yield drafts_line(found)


def sentence(outcome: Outcome) -> str:
    """One difference in words."""
    off = "" if outcome.worst in (1.0, float("inf")) else f" by up to {share(outcome.worst)}"
    text = f"{outcome.where}: {outcome.unequal} of {outcome.rows} rows differ{off}"
    if outcome.note:
        text += f" ({outcome.note})"
    if outcome.explained and not outcome.note.startswith("equals"):
        text += f"; all are equal with {' or with '.join(outcome.explained[:3])}"
    elif not outcome.explained and outcome.tried:
        near = outcome.tried[0]
        text += "; none of the candidates explains it"
        if near.error < outcome.worst and near.error != 1.0:
            text += f", the nearest is {near.what} ({share(near.error)} off)"
    return text


def share(error: float) -> str:
    """A relative error."""
    if error == float("inf"):
        return "not comparable"
    return f"{error:.0%}" if error >= 0.1 else f"{error:.1%}" if error >= 0.001 else f"{error:.0e}"


def drafts_line(found: TraceDiff) -> str:
    """How many of the engine's drafts are those of the contract."""
    if not found.rounds:
        return "drafts: no turn could be drafted anew (tokens before it are not in the trace, or beyond --max-rows)"
    return (
        f"drafts: in {found.equal} of {found.rounds} turns exactly those that the contract's drafter makes "
        "from its target's own states"
    )
