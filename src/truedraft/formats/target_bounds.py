"""What keys of a target's config can hold, where transformers itself would fail late, hang or run nonsense.

Only families whose layers are more than softmax attention over all rows: their configs have counts, ratios
and kinds that must fit each other. Whatever is not in these tables is left to transformers.
"""

from __future__ import annotations

from collections.abc import Mapping

from truedraft.contract import InputError
from truedraft.formats._keys import INTEGER, INTEGERS, NUMBER, TEXTS, Keys

MAX_SINKHORN = 1000
"""Most rounds of Sinkhorn normalisation that are believed; published: 20."""

_MOST = 2**31
_FAR = 2**40
"""For positions: more of them than there are rows is no mistake."""

_FULL, _SLIDING, _LINEAR = "full_attention", "sliding_attention", "linear_attention"
_LAYER_TYPES: Mapping[str, tuple[str, ...]] = {
    "deepseek_v4": (_SLIDING, "compressed_sparse_attention", "heavily_compressed_attention"),
    "gemma4_text": (_SLIDING, _FULL),
    "glm_moe_dsa": (),  # all alike, and named differently by different releases
    "gpt_oss": (_SLIDING, _FULL),
    "qwen3_5_moe_text": (_LINEAR, _FULL),
    "qwen3_5_text": (_LINEAR, _FULL),
    "qwen3_moe": (),
    "qwen3_next": (_LINEAR, _FULL),
}
"""Model types that are checked, and the entries that their `layer_types` can have (none: any)."""

_OUTER = {"gemma4": "gemma4_text", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text"}
"""Multimodal model types, and their text model's where `text_config` states none."""

_RANGES: Mapping[tuple[int, int], str] = {
    (1, _MOST): """
        num_attention_heads num_key_value_heads num_global_key_value_heads head_dim global_head_dim
        q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim o_groups o_lora_rank
        moe_intermediate_size n_routed_experts num_local_experts hc_mult index_n_heads index_head_dim
        index_topk_freq full_attention_interval linear_conv_kernel_dim linear_key_head_dim
        linear_value_head_dim linear_num_key_heads linear_num_value_heads compress_rate_csa
        compress_rate_hca compress_rates/compressed_sparse_attention
        compress_rates/heavily_compressed_attention""",
    (0, _MOST): """
        intermediate_size shared_expert_intermediate_size num_experts n_shared_experts num_hash_layers
        first_k_dense_replace index_skip_topk_offset hidden_size_per_layer_input vocab_size_per_layer_input
        num_kv_shared_layers""",
    (1, _FAR): "sliding_window index_topk",
    (1, MAX_SINKHORN): "hc_sinkhorn_iters",
}
"""Least and most -> keys."""

_CHOSEN: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("num_experts_per_tok", ("n_routed_experts", "num_experts", "num_local_experts"), False),
    ("top_k_experts", ("num_experts",), False),
    ("n_group", ("n_routed_experts",), True),
    ("topk_group", ("n_group",), False),
)
"""How many are taken, of how many, and whether the first must divide the second."""

_KINDS: Mapping[str, tuple[str, ...]] = {
    "indexer_types": ("full", "shared"),
    "mlp_layer_types": ("dense", "sparse", "hash_moe", "moe"),
}
_RATIOS = (0, 4, 128)
"""Entries of `compress_ratios`: a window alone, DeepSeek's sparse and its heavy compression."""


def check_target_keys(keys: Keys, prefix: str, model_type: str, layers: int) -> None:
    """Raise `InputError` for a key below `prefix` whose value no model of this type can have."""
    model_type = _OUTER.get(model_type, model_type)
    if model_type not in _LAYER_TYPES:
        return
    for (least, most), names in _RANGES.items():
        for name in names.split():
            _in_range(keys, prefix + name, least, most)
    for name, pools, divides in _CHOSEN:
        _chosen(keys, prefix, name, pools, divides)
    for name, known in {**_KINDS, "layer_types": _LAYER_TYPES[model_type]}.items():
        _per_layer(keys, prefix + name, keys.get(prefix + name, TEXTS), known, layers)
    ratios = keys.get(f"{prefix}compress_ratios", INTEGERS)
    _per_layer(keys, f"{prefix}compress_ratios", ratios, _RATIOS, layers)
    shared = keys.get(f"{prefix}num_kv_shared_layers", INTEGER) or 0
    if shared >= layers:
        raise _bad(keys, f"{prefix}num_kv_shared_layers", shared, f"0 to {layers - 1}")
    _window(keys, prefix)
    cap = keys.get(f"{prefix}final_logit_softcapping", NUMBER)
    if cap is not None and cap <= 0:
        raise _bad(keys, f"{prefix}final_logit_softcapping", cap, "a number > 0, or null")
    if model_type == "gemma4_text":
        _causal(keys, prefix)


def _in_range(keys: Keys, pointer: str, least: int, most: int) -> None:
    found = keys.get(pointer, INTEGER)
    if found is not None and not least <= found <= most:
        bounded = found > most or most == MAX_SINKHORN
        raise _bad(keys, pointer, found, f"{least} to {most}" if bounded else f"a whole number >= {least}")


def _chosen(keys: Keys, prefix: str, name: str, pools: tuple[str, ...], divides: bool) -> None:
    found = keys.get(prefix + name, INTEGER)
    sizes = {pool: size for pool in pools if (size := keys.get(prefix + pool, INTEGER)) is not None}
    pool, most = next(iter(sizes.items()), ("", _MOST))
    if found is None or most == 0:  # a dense model beside keys of its sparse sibling
        return
    if not 1 <= found <= most:
        raise _bad(keys, prefix + name, found, f"1 to {most}" + (f" ({pool})" if pool else ""))
    if divides and pool and most % found:
        raise _bad(keys, prefix + name, found, f"a divisor of {most} ({pool})")


def _per_layer(
    keys: Keys, pointer: str, entries: tuple[object, ...] | None, known: tuple[object, ...], layers: int
) -> None:
    """`compress_ratios` may have more entries than the target has layers: those of its stages."""
    if entries is None:
        return
    for number, entry in enumerate(entries):
        if known and entry not in known:
            raise _bad(keys, f"{pointer}/{number}", entry, f"one of {', '.join(map(str, known))}")
    if len(entries) < layers:
        raise InputError(
            f"{keys.where(pointer)}: found {len(entries)} entries, expected {layers}, one per layer"
        )


def _window(keys: Keys, prefix: str) -> None:
    pointer = f"{prefix}sliding_window"
    sliding = _SLIDING in (keys.get(f"{prefix}layer_types", TEXTS) or ())
    if sliding and keys.has(pointer) and keys.get(pointer, INTEGER) is None:
        raise InputError(f"{keys.where(pointer)}: found null, expected the sliding layers' window, >= 1")


def _causal(keys: Keys, prefix: str) -> None:
    """Gemma's `vision` is about the rows of images, which are never drafted."""
    pointer = f"{prefix}use_bidirectional_attention"
    found = keys.raw(pointer)
    if found not in (None, False, "vision"):
        raise InputError(
            f"{keys.where(pointer)}: found {found!r:.80}, expected null or 'vision': a target whose rows see "
            "later ones cannot verify drafts"
        )


def _bad(keys: Keys, pointer: str, found: object, expected: str) -> InputError:
    return InputError(f"{keys.where(pointer)}: found {found!r:.80}, expected {expected}")
