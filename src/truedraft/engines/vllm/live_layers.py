"""Reads the parts of a generic draft model of vLLM 0.32: attention, rotary tables, norms, heads.

With `live.py`, the only module that touches vLLM's objects to read them; paths below `vllm/`.
"""

from __future__ import annotations

from typing import Any

from truedraft.engines.vllm.facts import LiveHeads, LiveLayer, LiveNorms, LiveRope

_POSITIONS = (1, 3, 17, 128, 1000)
"""Rows of a rotary table that are compared: small ones for fast pairs, large ones for slow pairs."""


def read_layer(attention: Any) -> LiveLayer:
    """`qwen3_dflash.py` `DFlashQwen3Attention`, `llama.py` `LlamaAttention`: window and scale of the inner
    `Attention`, which the backend and the KV cache are built from.
    """
    core = getattr(attention, "attn", attention)
    window = getattr(core, "sliding_window", None)
    causal = getattr(attention, "causal", None)
    norm = getattr(attention, "q_norm", None)
    rope = getattr(attention, "rotary_emb", None)
    return LiveLayer(
        window=None if window is None or int(window) < 0 else int(window),
        causal=None if causal is None else bool(causal),
        scale=float(attention.scaling),
        sinks=getattr(attention, "attention_sink_bias", None) is not None,
        heads=int(attention.total_num_heads),
        kv_heads=int(attention.total_num_kv_heads),
        head_dim=int(attention.head_dim),
        norm_eps=None if norm is None else float(norm.variance_epsilon),
        qk_norm=norm is not None,
        rope=None if rope is None else read_rope(rope, rope.cos_sin_cache),
    )


def read_rope(rope: Any, table: Any) -> LiveRope:
    """A rotary module with the rows of its table: cosines, then sines (`rotary_embedding/base.py`)."""
    import torch

    rows = {}
    for position in _POSITIONS:
        if position < table.shape[0]:
            values = [float(value) for value in table[position].to("cpu", torch.float64)]
            half = len(values) // 2
            rows[position] = tuple(values[:half]), tuple(values[half:])
    return LiveRope(
        kind=type(rope).__name__,
        dims=int(rope.rotary_dim),
        half=bool(rope.is_neox_style),
        base=float(rope.base),
        scaling_factor=_scaling_factor(rope),
        rows=rows,
        exact=table.dtype in (torch.float32, torch.float64),
    )


def _scaling_factor(rope: Any) -> float | None:
    """`yarn_scaling_rope.py`, `llama3_rope.py`: one factor; `linear_scaling_rope.py`: a list of them."""
    many = getattr(rope, "scaling_factors", None)
    found = many[0] if many else getattr(rope, "scaling_factor", None)
    return None if found is None else float(found)


def context_rope(inner: Any, layers: tuple[LiveLayer, ...]) -> LiveRope | None:
    """`DFlashQwen3Model._build_fused_kv_buffers`: context keys of all layers are rotated with one table."""
    table = getattr(inner, "_rope_cos_sin_cache", None)
    if table is None or not layers or layers[0].rope is None:
        return None
    return read_rope(inner.layers[0].self_attn.rotary_emb, table)


def read_norms(inner: Any) -> LiveNorms | None:
    """`llama_eagle3.py` `LlamaModel`, `LlamaDecoderLayer`."""
    if not hasattr(inner, "norm_before_fc"):
        return None
    first = inner.layers[0]
    return LiveNorms(
        before_residual=first._residual_norm.__name__ == "_norm_before_residual",
        per_tap=getattr(inner, "fc_norm", None) is not None,
        before_fc=bool(inner.norm_before_fc),
        output=bool(inner.norm_output),
    )


def read_heads(inner: Any) -> LiveHeads | None:
    """`qwen3_dspark.py` `Qwen3DSparkModel`: a vanilla Markov head, a confidence head on the final norm."""
    markov = getattr(inner, "markov_head", None)
    if markov is None:
        return None
    confidence = getattr(inner, "confidence_head", None)
    joined = None if confidence is None else bool(confidence.with_markov)
    biased = None if confidence is None else getattr(confidence.proj, "bias", None) is not None
    return LiveHeads(int(markov.markov_w1.weight.shape[1]), joined, biased)


def k_norm_error(inner: Any) -> float | None:
    """How far the fused norm of context keys is from each layer's own k_norm, on random keys.

    `DFlashQwen3Model._normalize_context_k` hands a stacked weight [layers, head_dim] to one kernel. The CPU
    kernel of 0.32.0 takes its first row for all layers, as XPU's did (vllm#56431).
    """
    import torch

    stacked = getattr(inner, "_k_norm_weights", None)
    if stacked is None or not hasattr(inner, "_normalize_context_k"):
        return None
    generator = torch.Generator().manual_seed(0)
    layers, size = stacked.shape
    keys = torch.randn(layers, 4, int(inner._num_kv_heads), size, generator=generator)
    keys = keys.to(stacked.device, stacked.dtype)
    with torch.inference_mode():
        fused = inner._normalize_context_k(keys.clone()).float()
        exact = keys.float()
        exact = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + float(inner._rms_norm_eps))
        exact = exact * stacked.float()[:, None, None]
    return float((fused - exact).abs().max() / exact.abs().max())
