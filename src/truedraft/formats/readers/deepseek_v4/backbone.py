"""Sizes of DeepSeek-V4's stages, from the config and, independently, from their tensors."""

from __future__ import annotations

import re

from truedraft.contract import PairError, Sourced, shape, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, NUMBER, Keys
from truedraft.formats.axes.backbone import agreed_size
from truedraft.formats.readers.deepseek_v4.keys import stage_count

STAGE = r"mtp\.[0-9]+\."
DEFAULT = "DeepseekV4Config default"

_SIZES: tuple[tuple[str, str, int | None, str], ...] = (
    ("hidden_size", "hidden_size", None, r"attn_norm\.weight"),
    ("intermediate_size", "moe_intermediate_size", None, r"ffn\.experts\.[0-9]+\.w[13]\.weight"),
    ("heads", "num_attention_heads", None, r"attn\.attn_sink"),
    ("head_dim", "head_dim", 512, r"attn\.kv_norm\.weight"),
)


def read_stage_sizes(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    """Enter all `backbone` axes and `stages.layers`."""
    _count(book, keys, draft)
    for axis, key, default, pattern in _SIZES:
        claims = [keys.claim(key, INTEGER), agreed_size(draft, STAGE + pattern, 0)]
        fallback = None if default is None else book.rule(default, DEFAULT)
        book.settle(f"backbone.{axis}", claims, fallback, note=f"no {key}")
    kv_heads = book.rule(1, DEFAULT)
    book.settle("backbone.kv_heads", keys.claims(INTEGER, "num_key_value_heads"), kv_heads)
    eps = keys.claims(NUMBER, "rms_norm_eps")
    book.settle("backbone.norm_eps", eps, book.rule(1e-6, DEFAULT))
    book.settle("backbone.activation", [], book.rule("silu", "silu(gate) * up, both clamped to swiglu_limit"))
    book.settle("backbone.attention_bias", [], book.rule(False))
    book.settle("backbone.qk_norm", [], book.rule(True, "q_norm on the low rank, kv_norm on the latent"))


def _count(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    """The tensors say first how many stages there are; `num_nextn_predict_layers` never does."""
    claims: list[Sourced] = []
    indices = {int(m[1]): n for n in draft.tensors if (m := re.match(r"mtp\.(0|[1-9][0-9]{0,5})\.", n))}
    if indices:
        last = max(indices)
        claims.append(shape(last + 1, draft.where_tensor(indices[last])))
    claims += keys.claims(INTEGER, "n_mtp_layers")
    count = stage_count(keys)
    if count is not None:
        claims.append(stated(count, keys.where("compress_ratios")))
    note = "neither tensors (mtp.*) nor compress_ratios say how many stages there are"
    stages = book.settle("backbone.layers", claims, note=note)
    layers = book.target.layers
    if not isinstance(stages.value, int):
        book.settle("stages.layers", [], note=note)
        return
    if not 1 <= stages.value <= 64:
        where = stages.source.where if stages.source else "backbone.layers"
        raise PairError("layers", where, f"{stages.value} stages", "1 to 64")
    ids = tuple(layers + i for i in range(integer(stages.value)))
    book.settle("stages.layers", [], book.rule(ids, "num_hidden_layers + i"))
