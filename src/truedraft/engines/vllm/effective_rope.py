"""The `rope` axes of a live engine: what its tables do, not what its config says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from truedraft.contract import Contract, Record, Value
from truedraft.engines.vllm.facts import LiveEngine, LiveRope
from truedraft.engines.vllm.rope_table import measured_base, measured_factor, turns_as
from truedraft.engines.vllm.seen import Seen

_ROPE = "model_executor/layers/rotary_embedding"
_CONTEXT = "model_executor/models/qwen3_dflash.py _build_fused_kv_buffers"
_KINDS = {
    "YaRNScalingRotaryEmbedding": "yarn",
    "Llama3RotaryEmbedding": "llama3",
    "LinearScalingRotaryEmbedding": "linear",
}


@dataclass(frozen=True)
class _Turn:
    """The settings of one layer."""

    theta: float
    dims: int
    scaling: Value
    factor: float


def ropes(native: Contract, live: LiveEngine) -> Iterator[Seen]:
    """A table that turns as the contract says has the contract's settings; another is described by its
    module. Context keys of a block drafter count as the layer's own.
    """
    found = [layer.rope for layer in live.layers]
    if not found or any(rope is None or not rope.rows for rope in found):
        return
    turns, why, at = [], "cosines and sines of each draft layer's table", _ROPE
    for index, rope in enumerate(found):
        assert rope is not None
        wanted = _wanted(native, index)
        turn = _turn(rope, wanted)
        if live.context_rope is not None and live.context_rope.rows and turn == wanted:
            turn = _turn(live.context_rope, wanted)
            if turn != wanted:
                why, at = (
                    "context keys of all draft layers are rotated with the first layer's table",
                    _CONTEXT,
                )
        turns.append(turn)
    yield Seen("rope.theta", tuple(turn.theta for turn in turns), why, at)
    yield Seen("rope.rotary_dims", tuple(turn.dims for turn in turns), why, at)
    yield Seen("rope.scaling", tuple(turn.scaling for turn in turns), why, at)
    yield Seen("rope.attention_factor", tuple(turn.factor for turn in turns), why, at)
    layouts = tuple("half" if rope is None or rope.half else "interleaved" for rope in found)
    yield Seen("rope.layout", layouts, "is_neox_style of each draft layer's table", _ROPE)
    yield Seen("rope.placement", ("first",) * len(found), "the first dimensions are rotated", _ROPE)
    kinds = tuple("mrope" if rope is not None and "MRotary" in rope.kind else "plain" for rope in found)
    yield Seen("rope.positions", kinds, "the class of each draft layer's table", _ROPE)


def _wanted(native: Contract, index: int) -> _Turn | None:
    """The contract's settings of a layer, if it settles them all."""
    names = ("rope.theta", "rope.rotary_dims", "rope.scaling", "rope.attention_factor")
    values = [native.tuple_of(name) for name in names]
    if any(index >= len(entries) for entries in values):
        return None
    theta, dims, scaling, factor = (entries[index] for entries in values)
    return _Turn(float(str(theta)), int(str(dims)), scaling, float(str(factor)))


def _turn(rope: LiveRope, wanted: _Turn | None) -> _Turn:
    if wanted is not None and turns_as(rope, wanted.theta, wanted.dims, wanted.scaling, wanted.factor):
        return wanted
    factor = round(measured_factor(rope), 4)
    for base in (rope.base, measured_base(rope)):
        if base is not None and turns_as(rope, base, rope.dims, None, factor):
            return _Turn(base, rope.dims, None, factor)
    kind = _KINDS.get(rope.kind, rope.kind)
    scaling = Record({"kind": kind, "factor": rope.scaling_factor})
    return _Turn(rope.base, rope.dims, scaling, factor)
