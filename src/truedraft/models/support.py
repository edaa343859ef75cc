"""What the drafters can run: a contract that asks for more is refused by axis, never half obeyed."""

from __future__ import annotations

from truedraft.contract import BLOCK_FAMILIES, CHAIN_FAMILIES, Contract, InputError, Value, format_value
from truedraft.formats.stage_layout import is_staged

_EVERYWHERE: dict[str, Value] = {
    "taps.basis": "plain",
    "fusion.fc": True,
    "attention.sinks": False,
    "attention.value_norm": False,
    "attention.kv_shared": False,
    "rope.positions": "plain",
}
_STAGES: dict[str, Value] = {
    "taps.state": "stream_mean",
    "taps.basis": "plain",
    "fusion.fc": True,
    "fusion.tap_norm": False,
    "fusion.concat_norm": False,
    "attention.gate": "none",
    "attention.value_norm": True,
    "attention.kv_shared": True,
    "rope.positions": "plain",
    "embedding.source": "target",
    "head.source": "target",
    "head.vocabulary_map": "none",
    "stages.compress_ratio": 0,
    "stages.collapse": "head",
    "stages.query_head_norm": True,
    "stages.scoring": "sqrtsoftplus",
    # readers disagree about what false means: vLLM's CPU path and transformers normalise all the same
    "stages.normalised_weights": True,
    "backbone.kv_heads": 1,
    "backbone.activation": "silu",
    "backbone.attention_bias": False,
    "backbone.qk_norm": True,
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
    if is_staged(contract):
        only = _STAGES
        _require_stages(contract)
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


def _require_stages(contract: Contract) -> None:
    """What the stages of DeepSeek-V4 need beside single values."""
    kind = contract["markov.kind"]
    if kind not in ("none", "vanilla"):
        raise InputError(f"markov.kind={kind}: no stages have such a head, expected vanilla or none")
    first, ids = contract.target.layers, contract["stages.layers"]
    if ids != tuple(range(first, first + contract["backbone.layers"])):
        raise InputError(
            f"stages.layers={format_value(ids)}: expected the ids behind the target's, from {first} on"
        )
    for part, whole in (
        ("stages.experts_per_token", "stages.experts"),
        ("stages.output_groups", "backbone.heads"),
    ):
        few, many = contract[part], contract[whole]
        if few > many or (part == "stages.output_groups" and many % few):
            raise InputError(f"{part}={few}: found {whole}={many}, expected at least as many, in equal parts")


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
    if contract.get("confidence.input") == "pre_norm" and not is_staged(contract):
        raise InputError(f"confidence.input=pre_norm: the {contract.family} drafter cannot run this yet")
    rates = (contract.get("confidence.input") or "none") != "none"
    if rates and contract.get("confidence.with_markov") and contract.get("markov.kind") == "none":
        raise InputError(
            "confidence.with_markov=true: found markov.kind=none, expected a Markov head to read"
        )
