"""The rope of DeepSeek-V4's stages: of each stage what its own entry of `compress_ratios` says."""

from __future__ import annotations

from truedraft.contract import Sourced, Value, stated
from truedraft.formats._book import AxisBook
from truedraft.formats._keys import INTEGER, INTEGERS, NUMBER, Keys
from truedraft.formats.readers.deepseek_v4.keys import yarn

_THETA = ("rope_theta", "rope_parameters/main/rope_theta")
"""DeepSeek's key, and that of configs which transformers has saved."""


def read_stage_rope(book: AxisBook, keys: Keys) -> None:
    """Enter all `rope` axes and `stages.compress_ratio`, from each stage's own entry of `compress_ratios`."""
    ratios, first = keys.get("compress_ratios", INTEGERS) or (), keys.get("num_hidden_layers", INTEGER)
    stages = book.value("backbone.layers") or 0
    entries = ratios[first : first + stages] if first is not None else ()
    thetas = keys.claims(NUMBER, *_THETA)
    plain = book.rule(None, "DSpark stages are trained with plain rope")
    where = keys.where("compress_ratios")
    known = bool(entries) and len(entries) == stages
    alone = book.rule(0, "DSpark stages attend to their window alone")
    book.settle_each("stages.compress_ratio", fallback=alone)
    if known:
        book.settle("stages.compress_ratio", [stated(entries, where)])
    if known and any(entries):
        book.settle("rope.scaling", [stated(_scalings(keys, entries), where)])
        book.settle("rope.theta", [stated(tuple(_theta(keys, thetas, ratio) for ratio in entries), where)])
    else:
        own = stated(None, where) if known else plain
        book.settle_each("rope.scaling", [own])
        book.settle_each("rope.theta", thetas, note="draft/config.json states no rope_theta")
    book.settle_each("rope.rotary_dims", [_dims(book, keys)], note="no qk_rope_head_dim")
    book.settle_each("rope.placement", fallback=book.rule("last", "the last qk_rope_head_dim dimensions"))
    book.settle_each("rope.layout", fallback=book.rule("interleaved", "pairs of neighbours"))
    book.settle_each("rope.attention_factor", fallback=book.rule(1.0, "no factor on cosine and sine"))
    book.settle_each("rope.positions", fallback=book.rule("plain"))


def _scalings(keys: Keys, ratios: tuple[int, ...]) -> Value:
    return tuple(yarn(keys) if ratio else None for ratio in ratios)


def _theta(keys: Keys, plain: list[Sourced], ratio: int) -> float:
    if ratio:
        compressed = keys.claims(NUMBER, "compress_rope_theta", "rope_parameters/compress/rope_theta")
        return float(compressed[0].value) if compressed else 160000.0  # type: ignore[arg-type]
    return float(plain[0].value) if plain else 10000.0  # type: ignore[arg-type]


def _dims(book: AxisBook, keys: Keys) -> Sourced | None:
    """Stated as a number of dimensions, or, by transformers, as a share of the head."""
    dims, head_dim = keys.claim("qk_rope_head_dim", INTEGER), book.value("backbone.head_dim")
    share = keys.claim("partial_rotary_factor", NUMBER)
    if dims is None and share is not None and head_dim:
        return Sourced("value", int(float(share.value) * head_dim), share.source)  # type: ignore[arg-type]
    return dims
