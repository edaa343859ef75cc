"""Rotary embeddings of a draft stack.

Two generations of keys: flat (`rope_theta`, `rope_scaling`) and nested (`rope_parameters`), the latter also
per kind of layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from truedraft.contract import ROPE_SCALINGS, InputError, Sourced, Value, stated, unknown
from truedraft.formats._book import AxisBook
from truedraft.formats._keys import BOOLEAN, INTEGER, NUMBER, OBJECT, TEXT, Keys, record
from truedraft.formats.axes.attention import LayerKinds
from truedraft.formats.axes.yarn import yarn_attention_factor

_PLAIN = ("default", "none")
_YARN_OPTIONS = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")
_KINDS = {True: "sliding_attention", False: "full_attention"}
_HF = "transformers modeling_rope_utils"


@dataclass(frozen=True)
class _Place:
    """One object that may hold rope keys. `prefix` ends with a slash, or is empty for the top level."""

    prefix: str
    scaling: str

    def theta(self) -> str:
        return f"{self.prefix}rope_theta"


def read_rope(book: AxisBook, keys: Keys, kinds: LayerKinds, *, partial: bool = True) -> None:
    """Enter all `rope` axes. Nested parameters may differ between full and sliding layers.

    `partial`: whether the producer's code honours `partial_rotary_factor` where the rope is not scaled;
    transformers' `Qwen3RotaryEmbedding` and `LlamaRotaryEmbedding` do not.
    """
    places = _places(keys)
    reader = _Reader(book, keys, kinds)
    reader.enter("rope.theta", places, reader.theta, None, "draft/config.json states no rope_theta")
    plain = reader.rule(None, "no rope_scaling and no rope_type")
    reader.enter("rope.scaling", places, reader.scaling, plain, "")
    _rotary_dims(book, reader, places, partial or any(book.value_or("rope.scaling", ())))
    book.settle_each("rope.placement", fallback=book.rule("first"))
    neox = keys.claim("is_neox_style", BOOLEAN)
    half = book.rule("half", "rotate_half")
    claims = [] if neox is None else [stated("half" if neox.value else "interleaved", _where(neox)), half]
    book.settle_each("rope.layout", claims, half)
    _attention_factor(book, reader, places)
    book.settle_each("rope.positions", fallback=book.rule("plain"))


def _places(keys: Keys) -> list[dict[bool, _Place]]:
    """Where rope keys may stand, by kind of layer (sliding or not); most specific first."""
    places: list[dict[bool, _Place]] = []
    nested = "rope_parameters"
    if keys.has(nested) and any(keys.has(f"{nested}/{kind}") for kind in _KINDS.values()):
        each = {slides: f"{nested}/{kind}" for slides, kind in _KINDS.items()}
        places.append({slides: _Place(f"{path}/", path) for slides, path in each.items()})
    for place in (_Place(f"{nested}/", nested), _Place("rope_scaling/", "rope_scaling"), _Place("", "")):
        places.append(dict.fromkeys(_KINDS, place))
    return places


class _Reader:
    """Reads one quantity at a place, and spreads it over the layers."""

    def __init__(self, book: AxisBook, keys: Keys, kinds: LayerKinds) -> None:
        self.book = book
        self.keys = keys
        self.kinds = kinds

    def rule(self, value: Value, detail: str) -> Sourced:
        """The producer's rule for every layer alike."""
        return self.book.rule((value,) * (self.book.value("backbone.layers") or 0), detail)

    def enter(
        self,
        axis: str,
        places: list[dict[bool, _Place]],
        read: Callable[[_Place], Sourced | None],
        fallback: Sourced | None,
        note: str,
    ) -> None:
        """Settle a per-layer axis from all places that state it; `fallback` has one entry per layer."""
        layers = self.book.value("backbone.layers")
        if layers is None:
            self.book.settle(axis, [], note="the number of draft layers is unknown")
            return
        claims: list[Sourced] = []
        for place in places:
            found = {slides: read(place[slides]) for slides in _KINDS}
            missing = next((c.note for c in found.values() if c is not None and c.state == "unknown"), None)
            if missing is not None:
                self.book.settle(axis, [], note=missing)
                return
            claim = self._spread(found, layers)
            if claim is not None:
                claims.append(claim)
        self.book.settle(axis, claims, fallback, note=note)

    def _spread(self, found: dict[bool, Sourced | None], layers: int) -> Sourced | None:
        sliding = self.kinds.sliding
        if sliding is None:
            if found[True] != found[False] or found[False] is None:
                return None
            sliding = (False,) * layers
        used = [found[slides] for slides in sliding]
        if len(sliding) != layers or any(claim is None for claim in used):
            return None
        values = tuple(claim.value for claim in used if claim is not None)
        sources = list(dict.fromkeys(_where(claim) for claim in used if claim is not None))
        # Per-kind parameters have one source each; their common parent vouches for the list.
        return stated(values, sources[0] if len(sources) == 1 else self.keys.where("rope_parameters"))

    def theta(self, place: _Place) -> Sourced | None:
        return self.keys.claim(place.theta(), NUMBER)

    def rotary_dims(self, place: _Place) -> Sourced | None:
        claim = self.keys.claim(f"{place.prefix}partial_rotary_factor", NUMBER)
        head_dim = self.book.value("backbone.head_dim")
        if claim is None or not head_dim:
            return None
        share = float(claim.value)  # type: ignore[arg-type]
        if not 0 < share <= 1 or int(head_dim * share) % 2 or int(head_dim * share) < 2:
            raise InputError(
                f"{_where(claim)}: found {claim.value}, expected a share of head_dim {head_dim} that is even"
            )
        return stated(int(head_dim * share), _where(claim))

    def scaling(self, place: _Place) -> Sourced | None:
        keys = self.keys
        if not place.scaling or not keys.has(place.scaling) or keys.get(place.scaling, OBJECT) is None:
            return None
        types = [keys.claim(f"{place.prefix}{name}", TEXT) for name in ("rope_type", "type")]
        claim = next((c for c in types if c is not None), None)
        if claim is None or claim.value in _PLAIN:
            return None if claim is None else stated(None, _where(claim))
        kind = str(claim.value)
        if kind not in ROPE_SCALINGS:
            expected = ", ".join(("default", *sorted(ROPE_SCALINGS)))
            raise InputError(f"{_where(claim)}: found rope_type {kind!r:.80}, expected one of {expected}")
        return self._record(kind, place)

    def _record(self, kind: str, place: _Place) -> Sourced:
        keys = self.keys
        fields: dict[str, Any] = {name: keys.get(place.prefix + name, NUMBER) for name in ROPE_SCALINGS[kind]}
        if kind == "yarn":
            for name in _YARN_OPTIONS:
                fields[name] = keys.get(place.prefix + name, BOOLEAN if name == "truncate" else NUMBER)
        length = "original_max_position_embeddings"
        if length in fields and fields[length] is None:
            fields[length] = keys.get(length, INTEGER)
        missing = sorted(n for n in ROPE_SCALINGS[kind] if fields[n] is None)
        if missing:
            return unknown(f"{keys.where(place.scaling)} is {kind} scaling without {', '.join(missing)}")
        return stated(record(kind, fields), keys.where(place.scaling))

    def factor(self, place: _Place) -> Sourced | None:
        if not place.scaling or not self.keys.has(place.scaling):
            return None
        return self.keys.claim(f"{place.prefix}attention_factor", NUMBER)


def _rotary_dims(book: AxisBook, reader: _Reader, places: list[dict[bool, _Place]], partial: bool) -> None:
    head_dim = book.value("backbone.head_dim")
    reason = "no partial_rotary_factor: the whole head"
    if not partial:
        reason = "the whole head: partial_rotary_factor is not read"
        for place in places:
            reader.keys.ignore(*(f"{p.prefix}partial_rotary_factor" for p in place.values()))
    all_dims = reader.rule(head_dim, reason) if head_dim else None
    reader.enter(
        "rope.rotary_dims", places if partial else [], reader.rotary_dims, all_dims, "head_dim is unknown"
    )


def _attention_factor(book: AxisBook, reader: _Reader, places: list[dict[bool, _Place]]) -> None:
    scaling = book.value("rope.scaling")
    if scaling is None:
        book.settle("rope.attention_factor", [], note="rope.scaling is unknown")
        return
    rule = book.rule(tuple(map(yarn_attention_factor, scaling)), f"{_HF}, 1 without YaRN")
    reader.enter("rope.attention_factor", places, reader.factor, rule, "")


def _where(claim: Sourced) -> str:
    return claim.source.where if claim.source else "?"
