"""How a reference compares with the deployment that is diagnosed, from the records of both."""

from __future__ import annotations

from collections.abc import Sequence

from truedraft.contract import AcceptanceRecord

SHARED = 0.9
"""Share of the deployment's prompts that a like reference has too."""


def same_prompts(records: Sequence[AcceptanceRecord], others: Sequence[AcceptanceRecord]) -> bool:
    """Whether both ran the same prompts, of as many tokens, at the same k and temperature."""
    if not records or not others or {r.K for r in records} != {r.K for r in others}:
        return False
    if {r.temperature for r in records} != {r.temperature for r in others}:
        return False
    ours, theirs = (
        {(r.prompt_id, r.prompt_tokens) for r in side if r.prompt_id} for side in (records, others)
    )
    return bool(ours) and len(ours & theirs) >= SHARED * len(ours)


def other_contract(records: Sequence[AcceptanceRecord], others: Sequence[AcceptanceRecord]) -> str:
    """In words, if run and reference each had one contract, and not the same."""
    ours, theirs = ({r.contract_hash for r in side} for side in (records, others))
    if len(ours) != 1 or len(theirs) != 1 or ours == theirs or "" in ours | theirs:
        return ""
    return f"run and reference had other contracts: {next(iter(ours))} and {next(iter(theirs))}"
