"""A compared trace as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from truedraft.cli._printable import printable
from truedraft.cli._style import Style
from truedraft.engines.vllm.edits import MENDABLE

if TYPE_CHECKING:
    from truedraft.trace import Outcome, TraceDiff

K_NORM = re.compile(r"layer \d+'s k_norm")
AXES_OF = {
    "taps": "taps.layers",
    "block width": "block.width",
    "block tokens": "block.mask_token_id",
    "block positions": "block.position_offset",
}
"""Steps whose difference is about one axis, whatever explains it."""


def trace_lines(found: TraceDiff, style: Style) -> Iterator[str]:
    """The report, line by line."""
    about, contract = found.about, found.contract
    yield printable(
        f"{about.engine} {about.version} ({about.runner}), TRUEDRAFT={about.mode}, {about.method}, "
        f"{about.rounds} rounds of {len(about.prompts)} requests; served {about.draft}"
    )
    yield f"contract {contract.hash} ({contract.family}, {contract.dialect})"
    first = found.first
    if first is None:
        yield style.bold("every step that was compared is as the contract says")
    else:
        yield style.bold(f"first difference: {sentence(first)}")
        yield from _further(found, first)
        yield from (f"next: {step}" for step in next_steps(found))
    yield ""
    yield style.dim(f"{'step':<34}{'rows':>7}{'unequal':>9}{'largest error':>15}")
    for outcome in found.outcomes:
        line = f"{outcome.where:<34}{outcome.rows:>7}{outcome.unequal:>9}{share(outcome.worst):>15}"
        yield style.warn(line) if outcome.differs else line
    yield ""
    if found.absent:
        yield f"not compared: {', '.join(found.absent)}"
        if "query and key" in found.absent:
            yield "  layers are seen while they run eagerly on one rank (vLLM: --enforce-eager)"
    if found.unseen:
        yield f"{found.unseen} leading context rows came from a cache and were not seen"
    yield drafts_line(found)


def _further(found: TraceDiff, first: Outcome) -> Iterator[str]:
    """What else differs, places of one explanation together."""
    grouped: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in found.outcomes:
        if outcome.differs:
            key = outcome.explained[:1] if outcome.stage != "taps" else ()
            grouped.setdefault(key or (outcome.where,), []).append(outcome)
    for group in grouped.values():
        if group[0] is not first:
            yield f"also: {sentence(group[0])}"
        if len(group) > 1:
            yield f"  the same at {'; '.join(outcome.where for outcome in group[1:])}"


def next_steps(found: TraceDiff) -> list[str]:
    """What to do about an engine's differences, by the axes that their explanations name."""
    steps = []
    axes = {axis: None for outcome in found.outcomes if outcome.differs for axis in _axes(outcome)}
    mendable = [axis for axis in axes if axis in MENDABLE]
    if found.about.engine == "vllm" and mendable:
        steps.append(
            f"TRUEDRAFT=fix:{','.join(mendable)}, and record again; or correct what the engine reads"
        )
    rest = [axis for axis in axes if axis not in mendable]
    if rest:
        steps.append(f"no fix sets {', '.join(rest)}: correct the checkpoint or the engine's options")
    if any(K_NORM.search(what) for outcome in found.outcomes for what in outcome.explained[:1]):
        fix = "in vLLM TRUEDRAFT=fix:backbone.qk_norm mends it for the context keys"
        steps.append(f"one layer's k_norm for others is a known defect (truedraft explain TD426); {fix}")
    return steps


def _axes(outcome: Outcome) -> list[str]:
    """The axes that a difference is about."""
    if outcome.stage in AXES_OF:
        return [AXES_OF[outcome.stage]]
    words = outcome.explained[0].split(" and ") if outcome.explained else []
    return [word.partition("=")[0] for word in words if "=" in word]


def sentence(outcome: Outcome) -> str:
    """One difference in words."""
    off = "" if outcome.worst in (1.0, float("inf")) else f" by up to {share(outcome.worst)}"
    text = f"{outcome.where}: {outcome.unequal} of {outcome.rows} rows differ{off}"
    if outcome.note:
        text += f" ({outcome.note})"
    if outcome.explained and not outcome.note.startswith("equals"):
        text += f"; all are equal with {' or with '.join(outcome.explained[:3])}"
    elif not outcome.explained and outcome.tried and not outcome.note:
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
        return (
            "end to end: no turn could be drafted anew (tokens before it are not in the trace, "
            "or beyond --max-rows)"
        )
    rest = "" if found.equal == found.rounds else "; the others come from the differences above"
    return (
        f"end to end: in {found.equal} of {found.rounds} turns the engine drafted what the contract's "
        f"drafter drafts from its target's own states{rest}"
    )
