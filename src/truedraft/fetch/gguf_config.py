"""A llama GGUF file's metadata as a Hugging Face config.

Keys are those of the GGUF specification (ggml-org/ggml, `docs/gguf.md`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truedraft.contract import InputError

ARCHITECTURE = "llama"


class Metadata:
    """Metadata of one GGUF file by key. `reader`: a `gguf.GGUFReader` on `path`."""

    def __init__(self, reader: Any, path: Path) -> None:
        self._fields, self.path = reader.fields, path

    def get(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """The value, or `None` if the file lacks the key; `InputError` if it is of another type."""
        field = self._fields.get(key)
        if field is None:
            return None
        value = field.contents()
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{self.path}#{key}: found {value!r:.80}, expected another type")
        return value

    def need(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """As `get`; `InputError` if the file lacks the key."""
        value = self.get(key, kind)
        if value is None:
            raise InputError(f"{self.path}#{key}: missing")
        return value


def read_config(metadata: Metadata, *, tied: bool) -> dict[str, Any]:
    """`config.json` of the same model. `tied`: the file has no output head of its own.

    Raises `InputError` for another architecture, missing keys and rope scaling.
    """
    found = metadata.need("general.architecture", str)
    if found != ARCHITECTURE:
        raise InputError(
            f"{metadata.path}#general.architecture: found {found!r:.40}, expected {ARCHITECTURE!r}"
        )
    if metadata.get(f"{ARCHITECTURE}.rope.scaling.type", str) not in (None, "none"):
        raise InputError(f"{metadata.path}#{ARCHITECTURE}.rope.scaling.type: found one, expected none")

    def integer(key: str) -> int:
        value: int = metadata.need(f"{ARCHITECTURE}.{key}", int)
        if value < 1:
            raise InputError(f"{metadata.path}#{ARCHITECTURE}.{key}: found {value}, expected at least 1")
        return value

    heads = integer("attention.head_count")
    head_dim = integer("rope.dimension_count")
    stop = metadata.get("tokenizer.ggml.eos_token_id", int)
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id", int),
        "dtype": "float32",
        "eos_token_id": stop,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "hidden_size": integer("embedding_length"),
        "intermediate_size": integer("feed_forward_length"),
        "max_position_embeddings": integer("context_length"),
        "mlp_bias": False,
        "model_type": ARCHITECTURE,
        "num_attention_heads": heads,
        "num_hidden_layers": integer("block_count"),
        "num_key_value_heads": metadata.get(f"{ARCHITECTURE}.attention.head_count_kv", int) or heads,
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id", int),
        "rms_norm_eps": _decimal(metadata.need(f"{ARCHITECTURE}.attention.layer_norm_rms_epsilon", float)),
        "rope_parameters": {
            "rope_theta": _decimal(metadata.get(f"{ARCHITECTURE}.rope.freq_base", float) or 10_000.0),
            "rope_type": "default",
        },
        "tie_word_embeddings": tied,
        "vocab_size": integer("vocab_size"),
    }


def _decimal(value: float) -> float:
    """The shortest decimal of a number that the file holds in single precision: 1e-05, not 9.9999997e-06."""
    import numpy as np

    return float(str(np.float32(value)))
