"""A contract as text: a table by group, then what is not settled and how to settle it."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.cli._style import Style
from truedraft.contract import AXES, Contract, Sourced, format_value

_WIDEST_VALUE = 40


def contract_lines(contract: Contract, style: Style, *, table: bool = True) -> Iterator[str]:
    """The lines of `truedraft contract`; without `table` only the head and what is not settled."""
    yield style.bold(f"contract {contract.hash}") + f"  family {contract.family}  dialect {contract.dialect}"
    if table:
        yield from _table(contract, style)
    yield from _conflicts(contract, style)
    yield from _unread(contract, style)
    yield from _unknown(contract, style)


def _table(contract: Contract, style: Style) -> Iterator[str]:
    values = {name: _value(sourced) for name, sourced in contract.axes.items()}
    name_width = max(map(len, values))
    value_width = min(max(map(len, values.values())), _WIDEST_VALUE)
    yield "  ".join(("axis".ljust(name_width), "value".ljust(value_width), "source".ljust(8), "where"))
    group = ""
    for name, sourced in contract.axes.items():
        if AXES[name].group != group:
            group = AXES[name].group
            yield ""
        kind = sourced.source.kind if sourced.source else "-"
        where = sourced.source.where if sourced.source else ""
        note = f"({sourced.note})" if sourced.note and where else sourced.note
        row = "  ".join(
            (
                name.ljust(name_width),
                values[name].ljust(value_width),
                kind.ljust(8),
                f"{where} {note}".strip(),
            )
        ).rstrip()
        yield {"unknown": style.warn, "not_applicable": style.dim}.get(sourced.state, str)(row)


def _value(sourced: Sourced) -> str:
    return {"unknown": "? unknown", "not_applicable": "not applicable"}.get(
        sourced.state, format_value(sourced.value)
    )


def _conflicts(contract: Contract, style: Style) -> Iterator[str]:
    if contract.conflicts:
        yield ""
        yield style.warn("conflicts (run refuses them)")
    for conflict in contract.conflicts:
        yield f"  {conflict}"
        yield f"    settle with {conflict.remedy}"


def _unread(contract: Contract, style: Style) -> Iterator[str]:
    if contract.unread_keys:
        yield ""
        yield style.warn("unread keys (no reader used them)")
    yield from (f"  {_printable(key)}" for key in contract.unread_keys)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _unknown(contract: Contract, style: Style) -> Iterator[str]:
    needed = [name for name in contract.unknown if name in contract.unsettled]
    spare = [name for name in contract.unknown if name not in needed]
    if needed:
        yield ""
        yield style.warn("unknown (run refuses them)")
    for name in needed:
        yield f"  {name}: {contract.axes[name].note}"
        yield f"    settle with {AXES[name].remedy}"
    if spare:
        yield ""
        yield style.dim("unknown, not needed to run: " + ", ".join(spare))
