"""Contracts, their axes and sources, and acceptance records. Needs no torch and reads no files."""

from truedraft.contract._axes import AXES, BLOCK_FAMILIES, CHAIN_FAMILIES, ROPE_SCALINGS
from truedraft.contract._axis import Axis
from truedraft.contract._contract import SCHEMA, Conflict, Contract, Difference, diff
from truedraft.contract._deployment import COLDEST, Deployment
from truedraft.contract._errors import InputError, PairError, TruedraftError, UndecidedError, UnsupportedError
from truedraft.contract._record import DEFINITION, Acceptance, AcceptanceRecord, acceptance, acceptance_of
from truedraft.contract._source import (
    Source,
    Sourced,
    family,
    inferred,
    measured,
    not_applicable,
    override,
    shape,
    stated,
    unknown,
)
from truedraft.contract._target import TargetSpec
from truedraft.contract._values import Record, Value, format_value, from_json, to_json

__all__ = [
    "AXES",
    "BLOCK_FAMILIES",
    "CHAIN_FAMILIES",
    "COLDEST",
    "DEFINITION",
    "ROPE_SCALINGS",
    "SCHEMA",
    "Acceptance",
    "AcceptanceRecord",
    "Axis",
    "Conflict",
    "Contract",
    "Deployment",
    "Difference",
    "InputError",
    "PairError",
    "Record",
    "Source",
    "Sourced",
    "TargetSpec",
    "TruedraftError",
    "UndecidedError",
    "UnsupportedError",
    "Value",
    "acceptance",
    "acceptance_of",
    "diff",
    "family",
    "format_value",
    "from_json",
    "inferred",
    "measured",
    "not_applicable",
    "override",
    "shape",
    "stated",
    "to_json",
    "unknown",
]
