"""Sizes of a Qwen3-style draft stack, from its config and, independently, from its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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


def read_backbone(
    book: AxisBook,
    keys: Keys,
    draft: Checkpoint,
    defaults: Mapping[str, Sourced] | None = None,
    *,
    counts: tuple[str, ...] = ("num_hidden_layers",),
) -> None:
    """Enter all `backbone` axes.

    Tensors vouch for a size only where all layers agree on it; a disagreement between config and tensors is
    a conflict, one among the tensors is left to the layout check. `defaults`: by axis, what the producer's
    config class has for a key that is absent. `counts`: the keys that state the number of draft layers.
    """
    rule = {"backbone.qk_norm": book.rule(True, "q_norm and k_norm per head")} | dict(defaults or {})

    def enter(axis: str, key: str, *claims: Sourced | None) -> None:
        book.settle(f"backbone.{axis}", claims, rule.get(f"backbone.{axis}"), note=_no_key(key))

    def size(key: str, pattern: str) -> None:
        enter(key, key, keys.claim(key, INTEGER), agreed_size(draft, pattern, 0))

    _layers(book, keys, draft, counts)
    size("hidden_size", r"(hidden_)?norm\.weight|layers\.[0-9]+\.\w+_layernorm\.weight")
    size("intermediate_size", r"layers\.[0-9]+\.mlp\.(gate|up)_proj\.weight")
    size("head_dim", r"layers\.[0-9]+\.self_attn\.[qk]_norm\.weight")
    for axis, key, which in (
        ("heads", "num_attention_heads", "q"),
        ("kv_heads", "num_key_value_heads", "[kv]"),
    ):
        enter(axis, key, keys.claim(key, INTEGER), _heads(book, draft, which))
    enter("norm_eps", "rms_norm_eps", keys.claim("rms_norm_eps", NUMBER))
    enter("activation", "hidden_act", _activation(keys))
    projection = "layers.0.self_attn.q_proj"
    bias = presence(draft, f"{projection}.bias", f"{projection}.weight")
    enter("attention_bias", "attention_bias", keys.claim("attention_bias", BOOLEAN), bias)
    enter("qk_norm", "qk_norm", presence(draft, "layers.0.self_attn.q_norm.weight", f"{projection}.weight"))


def _layers(book: AxisBook, keys: Keys, draft: Checkpoint, counts: tuple[str, ...]) -> None:
    claims = keys.claims(INTEGER, *counts)
    indices = {int(m[1]) for name in draft.tensors if (m := re.match(r"layers\.(0|[1-9][0-9]{0,5})\.", name))}
    if indices:
        last = f"layers.{max(indices)}."
        name = min(n for n in draft.tensors if n.startswith(last))
        claims.append(shape(max(indices) + 1, draft.where_tensor(name)))
    kinds = keys.get("layer_types", TEXTS)
    if kinds and not claims:
        claims.append(stated(len(kinds), keys.where("layer_types")))
    layers = book.settle("backbone.layers", claims, note=_no_key(counts[0]))
    if layers.state == "value" and isinstance(layers.value, int) and layers.value > MAX_LAYERS:
        where = layers.source.where if layers.source else "backbone.layers"
        raise InputError(f"{where}: found {layers.value} draft layers, expected at most {MAX_LAYERS}")


def _heads(book: AxisBook, draft: Checkpoint, which: str) -> Sourced | None:
    rows = agreed_size(draft, rf"layers\.[0-9]+\.self_attn\.{which}_proj\.weight", 0)
    head_dim = book.value("backbone.head_dim")
    if rows is None or rows.source is None or not head_dim or book.in_conflict("backbone.head_dim"):
        return None
    count, rest = divmod(integer(rows.value), head_dim)
    return shape(count, rows.source.where) if rest == 0 and count > 0 else None


def _activation(keys: Keys) -> Sourced | None:
    claim = keys.claim("hidden_act", TEXT)
    if claim is None:
        return None
    if claim.value not in _ACTIVATIONS:
        expected = ", ".join(_ACTIVATIONS)
        raise InputError(f"{keys.where('hidden_act')}: found {claim.value!r:.80}, expected one of {expected}")
    return stated(_ACTIVATIONS[str(claim.value)], keys.where("hidden_act"))


def agreed_size(draft: Checkpoint, pattern: str, axis: int) -> Sourced | None:
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


def presence(draft: Checkpoint, name: str, companion: str) -> Sourced | None:
    """Whether `name` exists, once `companion` shows that the weights are there to be asked."""
    if name in draft.tensors:
        return shape(True, draft.where_tensor(name))
    return shape(False, f"{draft.where_tensor(companion)}: no {name}") if companion in draft.tensors else None


def _no_key(key: str) -> str:
    return f"draft/config.json has no {key} and no tensor settles it"
