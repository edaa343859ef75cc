"""What a probe measured, read back from `truedraft probe --json`, as sources of a contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truedraft.contract import AXES, Contract, InputError, Sourced, from_json, measured
from truedraft.formats._json import load_object

DECIDED = ("supported", "contradicted")


def read_measured(path: Path, contract: Contract) -> dict[str, Sourced]:
    """The measured axes of a probe's report that say more than `contract` does.

    Those are axes that the contract leaves open or guessed, and those that the probe contradicts. Raises
    `InputError` if the file is no report of `truedraft probe --json`, or one of another contract.
    """
    report = load_object(path)
    if report.get("contract_hash") != contract.hash:
        found = report.get("contract_hash")
        raise InputError(f"{path}#/contract_hash: found {found!r:.40}, expected {contract.hash}, this pair's")
    axes = report.get("axes")
    if not isinstance(axes, dict):
        raise InputError(f"{path}#/axes: expected the object of `truedraft probe --json`")
    out = {}
    for name, entry in axes.items():
        where = f"{path}#/axes/{name:.80}"
        if name not in AXES or not isinstance(entry, dict):
            raise InputError(f"{where}: expected the result of an axis")
        if entry.get("verdict") in DECIDED and _says_more(contract, name, entry):
            out[name] = measured(
                _value(name, entry, where, contract), f"{path.name}: {entry.get('reason', '')!s:.200}"
            )
    return out


def _says_more(contract: Contract, name: str, entry: dict[str, Any]) -> bool:
    return entry["verdict"] == "contradicted" or name in (*contract.unsettled, *contract.inferred)


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
