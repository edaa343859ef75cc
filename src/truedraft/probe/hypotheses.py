"""Which axes are doubted, and which values each of them may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from truedraft.contract import AXES, Contract, InputError, UndecidedError, Value

LEAKS: Mapping[str, Value] = {"context.end": "through_anchor"}
"""Values that show a drafter more than drafting has. They help any drafter, whatever it was trained with, so
that doing better with them is no evidence."""

UNMEASURED = ("confidence.", "regime.")
"""Groups that no draft depends on."""


@dataclass(frozen=True)
class Doubt:
    """An axis and its candidates.

    `value`: what the contract says; `None` with `open` if it does not say. `named`: it was asked for.
    """

    axis: str
    value: Value
    open: bool
    candidates: tuple[Value, ...]
    named: bool = False


def doubts(
    contract: Contract, axes: Sequence[str] = (), tries: Mapping[str, Sequence[Value]] | None = None
) -> tuple[Doubt, ...]:
    """The axes to probe, in the order of `AXES`.

    `axes`: only these axes or groups (`rope`); all with candidates if empty. `tries`: further candidates.
    Raises `InputError` for an axis that has nothing to try, `UndecidedError` for one that must be known and
    has none.
    """
    extra = tries or {}
    wanted = {name for name in AXES if not axes or name in axes or AXES[name].group in axes}
    for name in axes:
        if name not in AXES and all(axis.group != name for axis in AXES.values()):
            raise InputError(f"--axes {name:.80}: no such axis; `truedraft contract` lists all axes")
    out = []
    for name, axis in AXES.items():
        if contract.family not in axis.required_by or name.startswith(UNMEASURED):
            continue
        open_ = name in contract.unsettled
        values = tuple(dict.fromkeys((*axis.candidates(contract), *extra.get(name, ()))))
        if open_ and not values:
            raise UndecidedError(
                f"{name} is unknown and there is nothing to try; settle it with {axis.remedy}, or give "
                f"values with --try {name}=VALUE"
            )
        own = None if open_ else contract.axes[name].value
        if not open_:
            values = tuple(dict.fromkeys((own, *values)))
        if open_ or (name in wanted and len(values) > 1):
            out.append(Doubt(name, own, open_, values, name in axes))
    named = [name for name in axes if name in AXES and all(doubt.axis != name for doubt in out)]
    if named:
        raise InputError(
            f"--axes {named[0]}: nothing to try for this pair; give values with --try {named[0]}=VALUE"
        )
    return tuple(out)


def is_leak(axis: str, value: Value) -> bool:
    """Whether a value gives the drafter features that it will not have when it drafts."""
    return axis in LEAKS and LEAKS[axis] == value
