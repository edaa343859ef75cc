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
    Raises `InputError` for an axis that has nothing to try or values that would not be tried,
    `UndecidedError` for an axis that must be known and has nothing to try.
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
    _refuse_idle(axes, extra, out, contract)
    return tuple(out)


def _refuse_idle(
    axes: Sequence[str],
    tries: Mapping[str, Sequence[Value]],
    found: Sequence[Doubt],
    contract: Contract,
) -> None:
    """Raise `InputError` for an axis, group or value of the user's that no doubt takes up."""
    probed = {name for doubt in found for name in (doubt.axis, AXES[doubt.axis].group)}
    for name in axes:
        if name not in probed:
            raise InputError(f"--axes {name}: {_why_idle(name, contract)}")
    for name in tries:
        if name in probed:
            continue
        if axes and all(wanted not in (name, AXES[name].group) for wanted in axes):
            reason = f"not among the axes of --axes; add {name} there"
        elif name.startswith(UNMEASURED) or contract.family not in AXES[name].required_by:
            reason = _why_idle(name, contract)
        else:
            reason = "found the value that the contract has, expected another one"
        raise InputError(f"--try {name}: {reason}")


def _why_idle(name: str, contract: Contract) -> str:
    if f"{name}.".startswith(UNMEASURED):
        return "no draft depends on it, so that replay cannot measure it"
    members = [axis for axis in AXES.values() if name in (axis.name, axis.group)]
    if all(contract.axes[axis.name].state == "not_applicable" for axis in members):
        return f"nothing to try for this pair: {contract.family} drafters do not have it"
    if all(contract.family not in axis.required_by for axis in members):
        return "nothing to try for this pair: it says how a drafter is run, not what it was trained with"
    example = members[0].name if name not in AXES else name
    return f"nothing to try for this pair; give values with --try {example}=VALUE"


def is_leak(axis: str, value: Value) -> bool:
    """Whether a value gives the drafter features that it will not have when it drafts."""
    return axis in LEAKS and LEAKS[axis] == value
