"""Sizes of a Qwen3-style draft stack, from its config and, independently, from its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from truedraft.contract import InputError, Sourced, shape, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, NUMBER, TEXT, TEXTS, Keys

MAX_LAYERS = 1024

_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}


def read_backbone(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    """Enter all `backbone` axes.

    Tensors vouch for a size only where all layers agree on it; a disagreement between config and tensors is
    a conflict, one among the tensors is left to the layout check.
    """
    _layers(book, keys, draft)
    _size(
        book,
        keys,
        "hidden_size",
        _dims(draft, r"(hidden_)?norm\.weight|layers\.[0-9]+\.\w+_layernorm\.weight", 0),
    )
    _size(book, keys, "intermediate_size", _dims(draft, r"layers\.[0-9]+\.mlp\.(gate|up)_proj\.weight", 0))
    _size(book, keys, "head_dim", _dims(draft, r"layers\.[0-9]+\.self_attn\.[qk]_norm\.weight", 0))
    _heads(book, keys, draft, "heads", "num_attention_heads", "q")
    _heads(book, keys, draft, "kv_heads", "num_key_value_heads", "[kv]")
    eps = keys.claim("rms_norm_eps", NUMBER)
    book.settle("backbone.norm_eps", [eps], note=_no_key("rms_norm_eps"))
    book.settle("backbone.activation", [_activation(keys)], note=_no_key("hidden_act"))
    bias = keys.claim("attention_bias", BOOLEAN)
    bias_seen = _presence(draft, "layers.0.self_attn.q_proj.bias", "layers.0.self_attn.q_proj.weight")
    book.settle("backbone.attention_bias", [bias, bias_seen], note=_no_key("attention_bias"))
    norm_seen = _presence(draft, "layers.0.self_attn.q_norm.weight", "layers.0.self_attn.q_proj.weight")
    book.settle("backbone.qk_norm", [norm_seen], book.rule(True, "q_norm and k_norm per head"))


def _layers(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    claims = [keys.claim("num_hidden_layers", INTEGER)]
    indices = {int(m[1]) for name in draft.tensors if (m := re.match(r"layers\.([0-9]{1,6})\.", name))}
    if indices:
        last = f"layers.{max(indices)}."
        name = min(n for n in draft.tensors if n.startswith(last))
        claims.append(shape(max(indices) + 1, draft.where_tensor(name)))
    kinds = keys.get("layer_types", TEXTS)
    if kinds and not any(claims):
        claims.append(stated(len(kinds), keys.where("layer_types")))
    layers = book.settle("backbone.layers", claims, note=_no_key("num_hidden_layers"))
    if layers.state == "value" and isinstance(layers.value, int) and layers.value > MAX_LAYERS:
        where = layers.source.where if layers.source else "backbone.layers"
        raise InputError(f"{where}: found {layers.value} draft layers, expected at most {MAX_LAYERS}")


def _size(book: AxisBook, keys: Keys, key: str, seen: Sourced | None) -> None:
    book.settle(f"backbone.{key}", [keys.claim(key, INTEGER), seen], note=_no_key(key))


def _heads(book: AxisBook, keys: Keys, draft: Checkpoint, axis: str, key: str, which: str) -> None:
    rows = _dims(draft, rf"layers\.[0-9]+\.self_attn\.{which}_proj\.weight", 0)
    head_dim = book.value("backbone.head_dim")
    seen = None
    if rows is not None and head_dim and not book.in_conflict("backbone.head_dim"):
        count, rest = divmod(integer(rows.value), head_dim)
        if rest == 0 and count > 0 and rows.source is not None:
            seen = shape(count, rows.source.where)
    book.settle(f"backbone.{axis}", [keys.claim(key, INTEGER), seen], note=_no_key(key))


def _activation(keys: Keys) -> Sourced | None:
    claim = keys.claim("hidden_act", TEXT)
    if claim is None:
        return None
    if claim.value not in _ACTIVATIONS:
        expected = ", ".join(_ACTIVATIONS)
        raise InputError(f"{keys.where('hidden_act')}: found {claim.value!r:.80}, expected one of {expected}")
    return stated(_ACTIVATIONS[str(claim.value)], keys.where("hidden_act"))


def _dims(draft: Checkpoint, pattern: str, axis: int) -> Sourced | None:
    """The size of dimension `axis` that all tensors matching `pattern` share, or `None`."""
    names = [name for name in draft.tensors if re.fullmatch(pattern, name)]
    sizes = set(_sizes(draft, names, axis))
    if len(sizes) != 1 or (size := sizes.pop()) is None or size == 0:
        return None
    return shape(size, draft.where_tensor(names[0]))


def _sizes(draft: Checkpoint, names: Iterable[str], axis: int) -> Iterable[int | None]:
    for name in names:
        found = draft.shape(name) or ()
        yield found[axis] if axis < len(found) else None


def _presence(draft: Checkpoint, name: str, companion: str) -> Sourced | None:
    """Whether `name` exists, once `companion` shows that the weights are there to be asked."""
    if name in draft.tensors:
        return shape(True, draft.where_tensor(name))
    return shape(False, f"{draft.where_tensor(companion)}: no {name}") if companion in draft.tensors else None


def _no_key(key: str) -> str:
    return f"draft/config.json has no {key} and no tensor settles it"
