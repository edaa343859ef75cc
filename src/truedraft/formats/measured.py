"""What a probe measured, read back from `truedraft probe --json`, as sources of a contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truedraft.contract import (
    AXES,
    SCHEMA,
    Contract,
    InputError,
    Sourced,
    format_value,
    from_json,
    measured,
    to_json,
)
from truedraft.formats._json import CONFIG_BYTES, parse_object

VERDICTS = ("supported", "contradicted", "undecided", "not exercised")


def read_measured(path: Path, contract: Contract) -> dict[str, Sourced]:
    """The measured axes of a probe's report that say more than `contract` does.

    Those are axes that the contract leaves open or guessed, and those that the probe contradicts. `contract`
    may have overrides that the probe had not: they stay on top. Raises `InputError` if the file is no report
    of `truedraft probe --json`, one of another pair, or one made with overrides that `contract` lacks.
    """
    report = parse_object(_read(path), str(path))
    axes = _axes(report, path)
    _refuse_foreign(report, axes, contract, path)
    out = {}
    for name, entry in axes.items():
        if _is_taken(contract, name, entry):
            value = _value(name, entry, f"{path}#/axes/{name}", contract)
            out[name] = measured(value, f"{path.name}: {entry.get('reason', '')!s:.200}")
    return out


def _read(path: Path) -> bytes:
    """All of the user's file, which may be a link or a pipe."""
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a report of `truedraft probe --json`") from None
    if len(data) > CONFIG_BYTES:
        raise InputError(f"{path}: found more than {CONFIG_BYTES} bytes, expected a smaller file")
    return data


def _axes(report: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """The report's axes, each with one of the verdicts."""
    schema = report.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise InputError(f"{path}#/schema: found {schema!r:.40}, expected {SCHEMA}, this release's")
    if isinstance(report.get("probe"), dict):
        raise InputError(f"{path}: found a report of doctor, expected one of `truedraft probe --json`")
    axes = report.get("axes")
    if not isinstance(axes, dict):
        raise InputError(f"{path}#/axes: expected the object of `truedraft probe --json`")
    for name, entry in axes.items():
        where = f"{path}#/axes/{name:.80}"
        if name not in AXES or not isinstance(entry, dict):
            raise InputError(f"{where}: expected the result of an axis")
        if entry.get("verdict") not in VERDICTS:
            found = entry.get("verdict")
            raise InputError(f"{where}/verdict: found {found!r:.40}, expected one of {', '.join(VERDICTS)}")
    return axes


def _refuse_foreign(
    report: dict[str, Any], axes: dict[str, dict[str, Any]], contract: Contract, path: Path
) -> None:
    """Raise `InputError` unless the report is of this pair, under conditions that hold or are replaced."""
    found = report.get("contract_hash")
    if found == contract.hash:
        return
    theirs = report.get("contract")
    entries = theirs.get("axes") if isinstance(theirs, dict) else None
    if not isinstance(theirs, dict) or not isinstance(entries, dict):
        raise InputError(
            f"{path}#/contract_hash: found {found!r:.40}, expected {contract.hash}, "
            "that of this pair and --set"
        )
    if theirs.get("family") != contract.family:
        family = theirs.get("family")
        raise InputError(
            f"{path}#/contract/family: found {family!r:.40}, expected {contract.family}, this pair's"
        )
    for name in AXES:
        if not isinstance(entries.get(name), dict):
            raise InputError(
                f"{path}#/contract/axes/{name}: expected an axis as `truedraft contract --json` prints it"
            )
    other = [name for name, now in contract.axes.items() if not _same(entries[name], now)]
    then = {name: _override(entries[name].get("source")) for name in other}
    now = {name: contract.axes[name].source for name in other}
    over = {name for name, source in now.items() if source is not None and source.kind == "override"}
    # an override may move its neighbours: the width moves the proposals
    moved = {AXES[name].group for name in other if name in over or then[name]}
    replaced = {then[n] for n in other if n in axes and _is_taken(contract, n, axes[n])}
    for name in other:
        where = f"{path}#/contract/axes/{name}"
        if name in over or then[name] in replaced - {""}:
            continue
        if then[name]:
            raise InputError(
                f"{where}: the probe ran with {then[name]:.80}, which is not given here: give it too, "
                "or probe without it"
            )
        if AXES[name].group not in moved:
            raise InputError(
                f"{where}: found {_shown(entries[name])}, expected {_value_of(contract.axes[name])} "
                "as in this pair: a report of another pair, or of other files"
            )


def _override(source: object) -> str:
    """The `--set` of a source in JSON; empty if it is another kind."""
    if isinstance(source, dict) and source.get("kind") == "override":
        return str(source.get("where")) or "--set"
    return ""


def _same(then: dict[str, Any], now: Sourced) -> bool:
    value = to_json(now.value) if now.state == "value" else None
    return then.get("state") == now.state and then.get("value") == value


def _shown(then: dict[str, Any]) -> str:
    if then.get("state") != "value":
        return f"{then.get('state')!s:.40}"
    try:
        return f"{format_value(from_json(then.get('value'))):.80}"
    except ValueError as error:
        return str(error).removeprefix("found ")


def _value_of(now: Sourced) -> str:
    return format_value(now.value) if now.state == "value" else now.state


def _is_taken(contract: Contract, name: str, entry: dict[str, Any]) -> bool:
    """Whether the result of an axis is decided and says more than the contract."""
    if entry["verdict"] == "supported":
        return name in (*contract.unsettled, *contract.inferred)
    return bool(entry["verdict"] == "contradicted")


def _value(name: str, entry: dict[str, Any], where: str, contract: Contract) -> Any:
    axis = AXES[name]
    try:
        value = from_json(entry.get("best"))
    except ValueError as error:
        raise InputError(f"{where}/best: {error}, expected {axis.type.expects}") from None
    axis.check(value, f"{where}/best")
    count = axis.count(contract)
    if count is not None and isinstance(value, tuple) and len(value) != count:
        raise InputError(
            f"{where}/best: found {len(value)} entries, expected {count} (one per {axis.extent})"
        )
    return axis.normal(value)
