"""Dequantised weights of a llama GGUF file under Hugging Face names, in fp32.

A Q4_1 weight is scale * q + minimum with both factors in half precision and q from 0 to 15, a Q8_0 weight
scale * q with q from -128 to 127. Neither fits fp16 or bf16 without rounding, fp32 holds both as they are
computed (`gguf.quants`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from truedraft.contract import InputError

Progress = Callable[[int, int], None]
"""Told how many of how many tensors are done."""

_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK = re.compile(r"blk\.(\d{1,4})\.(\w+)\.weight")

IGNORED = ("rope_freqs.weight",)
"""The plain rope frequencies, which the config states."""


def weights_of(
    reader: Any, config: dict[str, Any], path: Path, progress: Progress = lambda *_: None
) -> dict[str, Any]:
    """Hugging Face name -> fp32 array, for a `gguf.GGUFReader` on `path` and its `read_config`.

    Raises `InputError` for a tensor that the architecture does not have, lacks, or has in another shape, for
    one quantised in a way that `gguf` does not know, and for values that are not finite.
    """
    import gguf
    import numpy as np

    expected = _shapes(config)
    out: dict[str, Any] = {}
    for number, tensor in enumerate(reader.tensors, 1):
        progress(number, len(reader.tensors))
        if tensor.name in IGNORED:
            continue
        name, where = _translated(tensor.name), f"{path}#{tensor.name}"
        if name not in expected:
            raise InputError(f"{where}: found a tensor that this architecture does not have")
        try:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
        except (NotImplementedError, ValueError) as error:
            raise InputError(f"{where}: cannot be dequantised ({error})") from None
        values = np.array(values, dtype=np.float32)
        if values.shape != expected[name]:
            raise InputError(f"{where}: found shape {list(values.shape)}, expected {list(expected[name])}")
        if not np.isfinite(values).all():
            raise InputError(f"{where}: found NaN or infinite values, expected finite weights")
        out[name] = _in_halves(values, name, config)
    for name in expected:
        if name not in out:
            raise InputError(f"{path}: found no tensor for {name}")
    return out


def _translated(name: str) -> str:
    if (block := _BLOCK.fullmatch(name)) is not None and block[2] in _INNER:
        return f"model.layers.{int(block[1])}.{_INNER[block[2]]}.weight"
    return _OUTER.get(name, "")


def _shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, inner, vocabulary = (config[key] for key in ("hidden_size", "intermediate_size", "vocab_size"))
    query = config["num_attention_heads"] * config["head_dim"]
    key = config["num_key_value_heads"] * config["head_dim"]
    layer = {
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
        "self_attn.q_proj": (query, hidden),
        "self_attn.k_proj": (key, hidden),
        "self_attn.v_proj": (key, hidden),
        "self_attn.o_proj": (hidden, query),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    out: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = (vocabulary, hidden)
    for number in range(config["num_hidden_layers"]):
        out |= {f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()}
    return out


def _in_halves(values: Any, name: str, config: dict[str, Any]) -> Any:
    """Query and key rows from interleaved rope pairs (2i, 2i + 1), as llama.cpp stores them, to pairs
    (i, i + D/2), as transformers' `rotate_half` wants them.
    """
    heads = {
        "q_proj": config["num_attention_heads"],
        "k_proj": config["num_key_value_heads"],
    }.get(name.split(".")[-2])
    if heads is None:
        return values
    rows, columns = values.shape
    pairs = values.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)
