"""`truedraft measure` for a reader: τ with its meaning and basis, positions, what was stated, warnings."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.cli._printable import printable
from truedraft.cli._style import Style
from truedraft.measure.sources import Figure, Group, Pooled, Summary

BASES = {
    "counts": "counts that the source states",
    "derived": "the only counts that agree with every printed figure",
    "bounds": "several counts agree with the printed figures",
    "printed": "as printed, no counts",
    "none": "",
}


def measure_lines(summary: Summary, style: Style) -> Iterator[str]:
    """The whole page, line by line."""
    groups = summary.chosen + [group for group in summary.groups.values() if group not in summary.chosen]
    for number, group in enumerate(groups):
        if number:
            yield ""
        yield from _group_lines(group, style)
    for seen in summary.contradictory:
        yield ""
        yield style.warn("contradiction") + f" {printable(seen.where)}: {printable(seen.contradiction)}"
        yield from _stated_lines(seen.stated)
    for warning in summary.warnings:
        yield style.warn("warning") + f"      {printable(warning)}"


def _group_lines(group: Group, style: Style) -> Iterator[str]:
    population = f" {printable(group.population)}" if group.population else ""
    yield (
        style.bold(f"{group.source}{population}")
        + f"  {group.scope}, {group.pool.observations} observation(s)"
    )
    yield from acceptance_lines(group.pool.pooled())
    mean = group.pool.mean_of_lengths()
    figures = dict.fromkeys(figure for _, figure in group.stated)
    yield from _stated_lines((*figures, *(() if mean is None else (mean,))))


def acceptance_lines(figures: Pooled) -> Iterator[str]:
    """τ, rounds, basis, definition, positions."""
    yield f"acceptance   {tau_text(figures)}{_rounds(figures)}"
    if BASES.get(figures.basis):
        yield f"             {BASES[figures.basis]}"
    for part in figures.definition.split("; "):
        yield f"             {part}"
    if figures.proposed and figures.accepted is not None:
        rate = figures.accepted / figures.proposed
        counts = f"{figures.accepted} of {figures.proposed} accepted"
        yield f"drafts       {counts}, {rate:.4f} (not to be compared across K)"
    if figures.survival:
        yield "position     " + " ".join(f"{i:5d}" for i in range(len(figures.survival)))
        yield "survival     " + " ".join(f"{share:5.3f}" for share in figures.survival)
    if figures.conditional:
        cells = ["  -  " if rate is None else f"{rate:5.3f}" for rate in figures.conditional]
        yield "conditional  " + " ".join(cells)


def tau_text(figures: Pooled) -> str:
    """τ with its bounds, as far as it is known."""
    if figures.tau is not None and figures.tau_between is not None:
        return f"tau {figures.tau:.3f} ({figures.tau_between[0]:.4f} to {figures.tau_between[1]:.4f})"
    if figures.tau is not None:
        return f"tau {figures.tau:.3f}"
    if figures.tau_between is not None:
        low, high = figures.tau_between
        return f"tau between {low:.2f} and {high:.2f}"
    return "tau unknown"


def _rounds(figures: Pooled) -> str:
    if figures.rounds is not None:
        return f" over {figures.rounds} rounds"
    if figures.rounds_between is not None:
        return f" over {figures.rounds_between[0]} to {figures.rounds_between[1]} rounds"
    return ""


def _stated_lines(figures: tuple[Figure, ...]) -> Iterator[str]:
    for figure in figures:
        yield f"stated       {figure.name} {figure.value:.4g}: {figure.definition}"
