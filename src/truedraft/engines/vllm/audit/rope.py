"""The rotary embedding that a draft layer was built with, by the release's own `get_rope` and its classes."""

from __future__ import annotations

from typing import Any

from truedraft.contract import Record
from truedraft.engines.vllm.audit.stand_ins import Blank, Gap

Rope = dict[str, Any]
"""Values of the axes `rope.*` for one layer."""

_YARN = {"beta_fast": 32.0, "beta_slow": 1.0}


def rope_of(rotary: Any) -> Rope:
    """What a built rotary embedding rotates by. Raises `Gap` for a class whose meaning is not known."""
    kind = type(rotary).__name__
    base, dims, neox = (_known(rotary, name) for name in ("base", "rotary_dim", "is_neox_style"))
    return {
        "rope.theta": float(base),
        "rope.rotary_dims": int(dims),
        "rope.layout": "half" if neox else "interleaved",
        "rope.scaling": _scaling(kind, rotary),
        "rope.positions": "mrope"
        if kind.startswith("MRotary") and _get(rotary, "mrope_section")
        else "plain",
    }


def _scaling(kind: str, rotary: Any) -> Record | None:
    if kind in ("RotaryEmbedding", "MRotaryEmbedding") and _get(rotary, "scaling_factor") is None:
        return None
    if kind == "LinearScalingRotaryEmbedding":
        factors = _known(rotary, "scaling_factors")
        return Record({"kind": "linear", "factor": float(factors[0])})
    factor = float(_known(rotary, "scaling_factor"))
    if kind == "Llama3RotaryEmbedding":
        names = {"low_freq_factor": "low_freq_factor", "high_freq_factor": "high_freq_factor"}
        names["original_max_position_embeddings"] = "orig_max_position"
        fields = {name: float(_known(rotary, own)) for name, own in names.items()}
        return Record({"kind": "llama3", "factor": factor, **fields})
    if "YaRN" in kind or kind.startswith("Deepseek") or kind.startswith("MRotary"):
        if factor == 1.0:  # interpolated and extrapolated frequencies are the same
            return None
        fields = {name: float(_known(rotary, name)) for name in _YARN}
        length = float(_known(rotary, "max_position_embeddings"))
        return Record(
            {"kind": "yarn", "factor": factor, "original_max_position_embeddings": length, **fields}
        )
    raise Gap(f"rotary embedding {kind} is not known to the audit")


def full_scaling(value: Any) -> Any:
    """A scaling with YaRN's defaults written out, so that stated and defaulted ones compare equal."""
    if isinstance(value, Record) and value.get("kind") == "yarn":
        kept = {
            k: v
            for k, v in value.items()
            if k in ("kind", "factor", "original_max_position_embeddings", *_YARN)
        }
        return Record(_YARN | {k: v for k, v in kept.items() if v is not None})
    return value


def _get(rotary: Any, name: str) -> Any:
    value = vars(rotary).get(name)
    if isinstance(value, Blank):
        raise Gap(f"{type(rotary).__name__}.{name} was not computed")
    return value


def _known(rotary: Any, name: str) -> Any:
    value = _get(rotary, name)
    if value is None:
        raise Gap(f"{type(rotary).__name__} has no {name}")
    return value
