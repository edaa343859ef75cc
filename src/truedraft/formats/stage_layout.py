"""Tensors of a drafter inside a DeepSeek-V4 checkpoint, in stages `mtp.0`, `mtp.1` and so on.

Names and shapes as in deepseek-ai's checkpoints (vLLM 0.32 `nvidia/dspark.py` `_remap_dspark_name`, SGLang
0.5.23 `deepseek_v4_dspark.py` `_remap_dspark_weight_name`). Published ones hold most matrices in FP8 or FP4,
each with its scales beside it (`.scale`). Of V4.1's stages only what surrounds them is known here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from truedraft.contract import Contract
from truedraft.formats._sizes import Dim, Sizes, plus, times

Shapes = dict[str, tuple[Dim, ...]]


def is_staged(contract: Contract) -> bool:
    """Whether the drafter is a part of the target's checkpoint (stages `mtp.N`)."""
    return contract.axes["stages.layers"].state != "not_applicable"


def stage_tensors(contract: Contract, size: Sizes, heads: Mapping[str, tuple[Dim, ...]]) -> Shapes:
    """Canonical name -> shape. `heads`: those of the Markov and confidence heads, which the last stage has.

    While the number of stages is open, only what surrounds the first one is known.
    """
    hidden, count = size("backbone.hidden_size"), size("backbone.layers")
    out: Shapes = {"mtp.0.main_proj.weight": (hidden, size.fused())}
    if size.settled("fusion.output_norm"):
        out["mtp.0.main_norm.weight"] = (hidden,)
    if count is None:
        return out
    last = f"mtp.{count - 1}"
    out[f"{last}.norm.weight"] = (hidden,)
    out |= {f"{last}.{name}": dims for name, dims in heads.items()}
    if not _known_inside(contract):
        return out
    for stage in range(count):
        parts = _attention(size, stage) | _hyper_connections(size) | _experts(size)
        out |= {f"mtp.{stage}.{name}": dims for name, dims in parts.items()}
    streams = size("stages.streams")
    out[f"{last}.hc_head_fn"] = (streams, times(streams, hidden))
    out[f"{last}.hc_head_base"] = (streams,)
    out[f"{last}.hc_head_scale"] = (1,)
    return out


def unused_stage_tensors(
    contract: Contract, needed: Mapping[str, object], found: Collection[str]
) -> tuple[str, ...]:
    """The `mtp.*` tensors that no stage needs; all others are the target's."""
    if not _known_inside(contract) or Sizes(contract)("backbone.layers") is None:
        return ()
    scales = {f"{name.removesuffix('weight')}scale" for name in needed if name.endswith(".weight")}
    own = sorted(name for name in found if name.startswith("mtp.") and name not in needed.keys() | scales)
    if Sizes(contract)("stages.experts") is None:
        own = [name for name in own if not re.match(r"mtp\.[0-9]+\.ffn\.experts\.", name)]
    return tuple(own)


def _known_inside(contract: Contract) -> bool:
    collapse: object = contract.get("stages.collapse")
    return collapse != "last_mix"


def _attention(size: Sizes, stage: int) -> Shapes:
    hidden, head_dim, heads = size("backbone.hidden_size"), size("backbone.head_dim"), size("backbone.heads")
    rank, groups = size("stages.query_rank"), size("stages.output_groups")
    written = times(groups, size("stages.output_rank"))
    read = times(heads, head_dim)
    part = None if read is None or not groups else read // groups
    out: Shapes = {
        "attn_norm.weight": (hidden,),
        "attn.wq_a.weight": (rank, hidden),
        "attn.q_norm.weight": (rank,),
        "attn.wq_b.weight": (read, rank),
        "attn.wkv.weight": (head_dim, hidden),
        "attn.kv_norm.weight": (head_dim,),
        "attn.wo_a.weight": (written, part),
        "attn.wo_b.weight": (hidden, written),
    }
    sinks = size.settled("attention.sinks")
    if sinks is None or sinks[stage]:
        out["attn.attn_sink"] = (heads,)
    return out


def _hyper_connections(size: Sizes) -> Shapes:
    """Rows of fn: one per stream for pre and post each, and one per pair of streams."""
    streams, hidden = size("stages.streams"), size("backbone.hidden_size")
    mixes = times(plus(2, streams), streams)
    out: Shapes = {}
    for part in ("attn", "ffn"):
        out[f"hc_{part}_fn"] = (mixes, times(streams, hidden))
        out[f"hc_{part}_base"] = (mixes,)
        out[f"hc_{part}_scale"] = (3,)
    return out


def _experts(size: Sizes) -> Shapes:
    hidden, inner = size("backbone.hidden_size"), size("backbone.intermediate_size")
    count = size("stages.experts")
    out: Shapes = {"ffn_norm.weight": (hidden,), "ffn.gate.weight": (count, hidden)}
    if size.settled("stages.router_bias"):
        out["ffn.gate.bias"] = (count,)
    widths = {f"experts.{number}": inner for number in range(count or 0)}
    if size("stages.shared_experts"):
        widths["shared_experts"] = times(size("stages.shared_experts"), inner)
    for expert, width in widths.items():
        out[f"ffn.{expert}.w1.weight"] = (width, hidden)
        out[f"ffn.{expert}.w2.weight"] = (hidden, width)
        out[f"ffn.{expert}.w3.weight"] = (width, hidden)
    return out
