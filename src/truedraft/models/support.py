"""What the drafters can run: a contract that asks for more is refused by axis, never half obeyed."""

from __future__ import annotations

from truedraft.contract import BLOCK_FAMILIES, CHAIN_FAMILIES, Contract, InputError, Value, format_value

_EVERYWHERE: dict[str, Value] = {
    "taps.basis": "plain",
    "fusion.fc": True,
    "attention.sinks": False,
    "attention.value_norm": False,
    "attention.kv_shared": False,
    "rope.positions": "plain",
}
_CHAIN: dict[str, Value] = {"attention.gate": "none", "fusion.output_norm": False}
"""Axes on which drafters, or those of one kind, can do one thing only."""

FARTHEST = 4096
"""Largest offset of a block's or row's position: it bounds the rotary table."""


def refuse_unsupported(contract: Contract) -> None:
    """Raise `InputError` naming the first axis whose value no drafter of the family can honour."""
    if contract.family not in BLOCK_FAMILIES | CHAIN_FAMILIES:
        raise InputError(f"family {contract.family}: no drafter runs it yet")
    only = _EVERYWHERE | (_CHAIN if contract.family in CHAIN_FAMILIES else {})
    for name, value in only.items():
        _require(contract, name, value)
    if contract.family in CHAIN_FAMILIES:
        _require_near(contract, "chain.position_offset")
    else:
        _require_near(contract, "block.position_offset")
        _require_sequence_heads(contract)
    dims, head_dim = contract["rope.rotary_dims"][0], contract["backbone.head_dim"]
    if dims % 2 or dims > head_dim:
        raise InputError(f"rope.rotary_dims={dims}: expected an even number up to head_dim {head_dim}")
    _require_sizes(contract)
    for name in ("rope.rotary_dims", "rope.layout", "rope.placement"):
        if len(set(contract[name])) > 1:
            mixed = contract[name]
            raise InputError(f"{name}={mixed}: found different values per layer, expected one for all")


def _require(contract: Contract, name: str, value: Value) -> None:
    found = contract[name]
    for entry in found if isinstance(found, tuple) else (found,):
        if entry != value:
            shown, wanted = f"{name}={format_value(entry)}", format_value(value)
            raise InputError(f"{shown}: the {contract.family} drafter cannot run this yet, expected {wanted}")


def _require_near(contract: Contract, name: str) -> None:
    offset = contract[name]
    if abs(offset) > FARTHEST:
        raise InputError(f"{name}={offset}: expected {-FARTHEST} to {FARTHEST}")


def _require_sizes(contract: Contract) -> None:
    heads, kv_heads = contract["backbone.heads"], contract["backbone.kv_heads"]
    if heads % kv_heads:
        raise InputError(f"backbone.heads={heads}: expected a multiple of backbone.kv_heads={kv_heads}")
    width, target_width = contract["backbone.hidden_size"], contract.target.hidden_size
    for name in ("embedding.source", "head.source"):
        if contract[name] == "target" and width != target_width:
            raise InputError(
                f"{name}=target: found a drafter {width} wide, expected the target's {target_width}"
            )
    scored, size = contract["head.vocabulary"], contract.target.vocab_size
    if contract["head.source"] == "target" and scored != size:
        raise InputError(f"head.source=target: found head.vocabulary={scored}, expected the target's {size}")


def _require_sequence_heads(contract: Contract) -> None:
    if contract.get("confidence.input") == "pre_norm":
        raise InputError(f"confidence.input=pre_norm: the {contract.family} drafter cannot run this yet")
    if contract.get("confidence.with_markov") and contract.get("markov.kind") == "none":
        raise InputError(
            "confidence.with_markov=true: found markov.kind=none, expected a Markov head to read"
        )
