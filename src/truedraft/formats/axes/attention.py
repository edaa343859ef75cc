"""Windows and causality of a Qwen3-style draft stack.

The most contradictory area of the field: engines differ on what an absent `is_causal` means and on whether
the window counts the query. The rules here are the producers' own, see `docs/contract.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from truedraft.contract import InputError, PairError, Sourced, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._keys import BOOLEAN, INTEGER, TEXTS, Keys

_KINDS = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class LayerKinds:
    """Which draft layers slide: `None` where nothing says so.

    `where`: the key that says so, unless `rule` does, the producer's default.
    """

    sliding: tuple[bool, ...] | None
    where: str
    rule: str = ""


def read_attention(
    book: AxisBook,
    keys: Keys,
    *,
    rule: tuple[str, str] = ("query", "visible iff query - key < W"),
    default: str = "",
) -> LayerKinds:
    """Enter all `attention` axes but `causal`; returns the layer kinds for the caller's causality rule.

    `rule`: the producer's `attention.window_rule` and its reason. `default`: why no layer slides where there
    is neither `layer_types` nor a true `use_sliding_window`, if the producer's config class says so.
    """
    layers = book.value("backbone.layers")
    kinds = _layer_kinds(keys, layers, default)
    _window(book, keys, kinds, layers)
    book.settle_each("attention.window_rule", fallback=book.rule(*rule))
    head_dim = book.value("backbone.head_dim")
    if head_dim:
        book.settle_each("attention.scale", fallback=book.rule(head_dim**-0.5, "head_dim ** -0.5"))
    else:
        book.settle("attention.scale", [], note="head_dim is unknown, and the scale is head_dim ** -0.5")
    for name, plain in (("sinks", False), ("gate", "none"), ("value_norm", False), ("kv_shared", False)):
        book.settle_each(f"attention.{name}", fallback=book.rule(plain))
    return kinds


def _layer_kinds(keys: Keys, layers: int | None, default: str) -> LayerKinds:
    where = keys.where("layer_types")
    kinds = keys.get("layer_types", TEXTS)
    window = keys.get("sliding_window", INTEGER)
    uses = keys.get("use_sliding_window", BOOLEAN)
    first = keys.get("max_window_layers", INTEGER)
    if kinds is not None:
        for kind in kinds:
            if kind not in _KINDS:
                raise InputError(f"{where}: found {kind!r:.80}, expected one of {', '.join(_KINDS)}")
        if layers is not None and len(kinds) != layers:
            raise PairError("layers", where, f"{len(kinds)} entries", f"{layers}, one per draft layer")
        return LayerKinds(tuple(kind == "sliding_attention" for kind in kinds), where)
    if layers is None:
        return LayerKinds(None, where)
    none = (False,) * layers
    if uses is False:
        return LayerKinds(none, keys.where("use_sliding_window"))
    if window is None or (uses is None and default):
        rule = default or "Qwen3Config: no sliding_window, no sliding layers"
        return LayerKinds(none, keys.where("sliding_window"), rule)
    if uses and first is not None:
        where = keys.where("max_window_layers")
        return LayerKinds(tuple(i >= first for i in range(layers)), where)
    return LayerKinds(None, where)


def _window(book: AxisBook, keys: Keys, kinds: LayerKinds, layers: int | None) -> None:
    for claim in keys.claims(INTEGER, "sliding_window", "dflash_config/swa_window_size"):
        if integer(claim.value) < 1 and claim.source is not None:
            raise InputError(f"{claim.source.where}: found {claim.value}, expected a whole number >= 1")
    claims: list[Sourced | None] = []
    note = "no layer_types says which layers slide"
    width = keys.get("sliding_window", INTEGER)
    forced = _forced_window(keys, width, layers)
    if forced is not None and not (kinds.sliding and any(kinds.sliding)):
        claims.append(forced)
    elif kinds.sliding is not None:
        if any(kinds.sliding) and width is None:
            note = f"{kinds.where} has sliding layers, but {keys.where('sliding_window')} is absent"
        else:
            value = tuple(width if slides else None for slides in kinds.sliding)
            claim = stated(value, kinds.where)
            if kinds.rule:
                claim = book.rule(value, kinds.rule)
            claims.append(claim)
            if any(kinds.sliding) and keys.get("use_sliding_window", BOOLEAN) is False:
                # Qwen3Config sets sliding_window to None unless use_sliding_window is true.
                claims.append(stated((None,) * len(value), keys.where("use_sliding_window")))
            claims.append(forced)
    book.settle("attention.window", claims, note=note)


def _forced_window(keys: Keys, width: int | None, layers: int | None) -> Sourced | None:
    """ModelOpt's export: `use_swa` windows every layer and leaves `layer_types` alone."""
    forced = keys.get("dflash_config/use_swa", BOOLEAN)
    own = keys.get("dflash_config/swa_window_size", INTEGER)
    if not forced or layers is None:
        return None
    pointer = "dflash_config/swa_window_size" if own is not None else "sliding_window"
    width = own if own is not None else width
    if width is None:
        where = keys.where("dflash_config/use_swa")
        raise PairError("window", where, "true, but no window size beside it", "sliding_window")
    return stated((width,) * layers, keys.where(pointer))
