"""`TargetSpec` from a target's directory: the torch-free view of the model that verifies."""

from __future__ import annotations

from typing import Any

from truedraft.contract import InputError, TargetSpec
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, OBJECT, TEXT, TEXTS, Keys
from truedraft.formats.regime_stops import stated_in_generation, stop_tokens_where
from truedraft.formats.target_bounds import check_target_keys

MAX_LAYERS = 4096

_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len")


def read_target(checkpoint: Checkpoint) -> TargetSpec:
    """The target's sizes, layer kinds and stop tokens.

    Multimodal configs are read below `text_config`. Raises `InputError` if a needed key is absent, if one
    has a value that no model can have, or if the embedding table has another shape than the config says.
    """
    keys = Keys(checkpoint)
    outer = not any(keys.has(name) for name in _LAYERS)
    prefix = "text_config/" if outer and keys.get("text_config", OBJECT) is not None else ""
    model_type = keys.get(f"{prefix}model_type", TEXT) or keys.get("model_type", TEXT) or "unknown"
    layers = _needed(keys, prefix, _LAYERS, most=MAX_LAYERS)
    hidden_size = _needed(keys, prefix, _HIDDEN)
    vocab_size = _needed(keys, prefix, ("vocab_size",))
    _check_embedding(checkpoint, vocab_size, hidden_size)
    check_target_keys(keys, prefix, model_type, layers)
    return TargetSpec(
        model_type=model_type,
        layers=layers,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        max_positions=_needed(keys, prefix, _POSITIONS),
        layer_kinds=_layer_kinds(keys, prefix, layers),
        stop_token_ids=_stop_tokens(checkpoint, prefix),
        # Gemma multiplies the rows inside its embedding module (transformers, GemmaModel.forward).
        embedding_scale=hidden_size**0.5 if model_type.startswith("gemma") else 1.0,
        tied_head=_tied(keys, prefix, checkpoint),
        where=checkpoint.where(f"/{prefix.rstrip('/')}" if prefix else ""),
    )


def _needed(keys: Keys, prefix: str, names: tuple[str, ...], most: int = 2**40) -> int:
    for name in names:
        value = keys.get(prefix + name, INTEGER)
        if value is not None:
            if not 1 <= value <= most:
                raise InputError(f"{keys.where(prefix + name)}: found {value}, expected 1 to {most}")
            return int(value)
    raise InputError(f"{keys.where(prefix + names[0])}: missing, expected a whole number")


def _layer_kinds(keys: Keys, prefix: str, layers: int) -> tuple[str, ...]:
    pointer = f"{prefix}layer_types"
    kinds = keys.get(pointer, TEXTS)
    if kinds is not None:
        if len(kinds) != layers:
            raise InputError(
                f"{keys.where(pointer)}: found {len(kinds)} entries, expected {layers}, one per layer"
            )
        return tuple(kinds)
    interval = keys.get(f"{prefix}full_attention_interval", INTEGER)
    if interval is not None and interval >= 1:
        # Qwen3NextConfig and Qwen3_5TextConfig: every interval-th layer is full, the others are recurrent.
        return tuple("linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers))
    window = keys.get(f"{prefix}sliding_window", INTEGER)
    uses = keys.get(f"{prefix}use_sliding_window", BOOLEAN)
    first = keys.get(f"{prefix}max_window_layers", INTEGER)
    if window is None or not uses:
        return ("full_attention",) * layers
    # Qwen2Config and Qwen3Config: layer i slides iff i >= max_window_layers (default 28).
    first = 28 if first is None else first
    return tuple("sliding_attention" if i >= first else "full_attention" for i in range(layers))


def _stop_tokens(checkpoint: Checkpoint, prefix: str) -> tuple[int, ...]:
    """Stop ids; those of `generation_config.json` replace the config's, as in `transformers` generation."""
    found: Any = stated_in_generation(checkpoint)
    if found is None:
        text = checkpoint.config.get("text_config") if prefix else None
        nested = text.get("eos_token_id") if isinstance(text, dict) else None
        found = checkpoint.config.get("eos_token_id") if nested is None else nested
    ids = [] if found is None else found if isinstance(found, list) else [found]
    for entry in ids:
        if not isinstance(entry, int) or isinstance(entry, bool) or not 0 <= entry < 2**53:
            raise InputError(f"{stop_tokens_where(checkpoint)}: found {found!r:.80}, expected token ids >= 0")
    return tuple(dict.fromkeys(ids))


def _tied(keys: Keys, prefix: str, checkpoint: Checkpoint) -> bool:
    for pointer in (f"{prefix}tie_word_embeddings", "tie_word_embeddings"):
        stated = keys.get(pointer, BOOLEAN)
        if stated is not None:
            return bool(stated)
    if checkpoint.tensors:
        return not any(name.endswith("lm_head.weight") for name in checkpoint.tensors)
    return True  # transformers' default for an absent key


def _check_embedding(checkpoint: Checkpoint, vocab_size: int, hidden_size: int) -> None:
    for name in ("model.embed_tokens.weight", "model.language_model.embed_tokens.weight"):
        found = checkpoint.shape(name)
        if found is not None and found != (vocab_size, hidden_size):
            raise InputError(
                f"{checkpoint.where_tensor(name)}: found shape {list(found)}, expected "
                f"[{vocab_size}, {hidden_size}] (vocab_size, hidden_size)"
            )
