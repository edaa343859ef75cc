"""An audit as text: a table axis × pair for each runner, then what differs, pair by pair."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.contract import AXES, format_value
from truedraft.engines.vllm.audit.audit import RUNNERS, Audit, outcome
from truedraft.engines.vllm.audit.observe import UNSEEN
from truedraft.engines.vllm.audit.probes import PROBES
from truedraft.engines.vllm.audit.verdict import Cell, Judged

SIGNS = {"honoured": "=", "misread": "M", "ignored": "I", "not callable": "?"}
LEGEND = "= honoured   M misread   I ignored, its key is never read   R refused   ? not callable"
_WIDTH = 300


def lines(audit: Audit) -> Iterator[str]:
    """The whole report."""
    head = f"vLLM {audit.version} ({audit.name}): {len(audit.pairs)} pairs"
    yield f"{head}, {audit.definitions} definitions of its source run"
    if not audit.tested:
        yield "  this audit was never tried on this release; what it cannot call is marked so"
    for runner in RUNNERS:
        yield ""
        yield from _table(audit, runner)
    yield LEGEND
    yield ""
    for number, name in enumerate(audit.pairs, start=1):
        yield from _pair(number, name, audit.pairs[name], audit.chosen.get(name))
    yield f"not callable in any release: {', '.join(UNSEEN)}"
    yield "beyond the conventions"
    for finding in audit.beyond:
        yield f"  {finding.topic}: {finding.verdict}: {finding.text}"
    if audit.contradictions:
        yield "`truedraft check --engine` says otherwise: its reading of this release is wrong here"
        yield from (f"  {text}" for text in audit.contradictions)


def _table(audit: Audit, runner: str) -> Iterator[str]:
    columns = [runners[runner] for runners in audit.pairs.values()]
    yield f"runner {runner}".ljust(28) + "".join(f"{n:>3}" for n in range(1, len(columns) + 1))
    for axis in AXES:
        signs = ["R" if judged.refused else _sign(judged, axis) for judged in columns]
        if any(axis in judged.cells for judged in columns):
            yield f"  {axis}".ljust(28) + "".join(sign.rjust(3) for sign in signs).rstrip()


def _sign(judged: Judged, axis: str) -> str:
    cell = judged.cells.get(axis)
    return "" if cell is None else SIGNS[cell.verdict]


def _pair(number: int, name: str, runners: dict[str, Judged], chosen: str | None) -> Iterator[str]:
    titles = {probe.name: probe.title for probe in PROBES}
    yield f"{number:>2} {titles.get(name, name)}"
    for runner, judged in runners.items():
        head = f"     {runner}{' (its choice)' if runner == chosen else ''} {outcome(judged)}"
        if judged.refused:
            yield f"{head}: {'; '.join(judged.refused)[:_WIDTH]}"
            continue
        bad = {axis: cell for axis, cell in judged.cells.items() if cell.differs}
        joint = " but for" if outcome(judged) == "honoured" else ":"
        yield head + (f"{joint} {', '.join(bad)}" if bad else "")
        for axis, cell in bad.items():
            yield f"       {axis}: {_difference(cell)}"
        for stop in judged.stopped:
            yield f"       not callable: {stop.step}: {stop.why[:_WIDTH]}"
        if judged.static_refused:
            yield f"       check refuses it: {judged.static_refused[0][:_WIDTH]}"


def _difference(cell: Cell) -> str:
    found, expected = format_value(cell.found), format_value(cell.expected)
    return f"{cell.verdict}, it would run {found[:_WIDTH]} instead of {expected[:_WIDTH]} ({cell.by})"
