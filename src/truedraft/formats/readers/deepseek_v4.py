"""DSpark drafters inside a DeepSeek-V4 checkpoint: stages `mtp.0`, `mtp.1`, … behind the target's layers.

Each stage is a whole V4 block (hyper-connection streams, latent attention with sinks, mixture of experts), at
layer id `num_hidden_layers + i`. Its rope and window are those of its own entry in `compress_ratios`: 0 means
plain rope and the window alone. Reference: `inference/model.py` and `config.json` of
deepseek-ai/DeepSeek-V4-Flash-DSpark; V4.1's taps by vLLM 0.33 `eagle3_utils.py` and SGLang 0.5.23
`deepseek_v4.py`, which agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, PairError, Record, Sourced, TargetSpec, Value, shape, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._canonical import renamed
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, INTEGERS, NUMBER, OBJECT, TEXT, Keys, record
from truedraft.formats._nested import NestedKeys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.block import BlockClaims, enter_block, enter_slots
from truedraft.formats.readers.zlab import read_fusion

DIALECT = "deepseek_v4"
DESCRIPTION = "DSpark inside DeepSeek-V4 (dspark_* keys)"
REFERENCE = "deepseek-ai/DeepSeek-V4-Flash-DSpark inference/model.py"

MARKOV = (r"mtp\.([0-9]+)\.markov_head\.(?:embed|markov_w1)\.weight", r"mtp.\1.markov_head.markov_w1.weight")
_MARKOV_OUT = (
    r"mtp\.([0-9]+)\.markov_head\.(?:head|markov_w2)\.weight",
    r"mtp.\1.markov_head.markov_w2.weight",
)
_YARN = ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow")


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a config states a DSpark drafter of its own."""
    if config.get("speculators_model_type") is not None:
        return False
    text = config.get("text_config")
    places = (config, text if isinstance(text, dict) else {})
    return any(key.startswith("dspark_") for place in places for key in place)


def canonical(draft: Checkpoint) -> Checkpoint:
    """V4.1 calls the Markov tables `embed` and `head`."""
    return renamed(draft, (MARKOV, _MARKOV_OUT))


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of the drafter inside a V4 checkpoint; `InputError` if config and target disagree."""
    keys = text_keys(draft)
    book = AxisBook("dspark", DIALECT, REFERENCE, target, overrides)
    _backbone(book, keys, draft)
    common.check_vocabulary(book, keys, "vocab_size")
    common.check_borrowed_width(book)
    _taps(book, keys)
    read_fusion(book)
    widths = keys.claims(INTEGER, "dspark_block_size")
    first = book.settle("block.first_slot", [], book.rule("predicts_next", "slot j predicts anchor+j+1"))
    enter_block(book, BlockClaims(first, 0, False, widths))
    enter_slots(book, keys, ("dspark_noise_token_id",))
    _attention(book, keys)
    read_stage_rope(book, keys)
    _tables(book)
    _heads(book, keys, draft)
    common.read_regime(book)
    keys.ignore("dspark_n_routed_experts", "dspark_num_experts_per_tok")
    # All other keys are the target's own.
    return book.contract(tuple(key for key in keys.unread() if "/dspark_" in key))


def text_keys(checkpoint: Checkpoint) -> Keys:
    """The keys of the text model: V4.1's stand below `text_config`."""
    keys = Keys(checkpoint)
    text = checkpoint.config.get("text_config")
    inside = isinstance(text, dict) and "num_hidden_layers" in text
    return _TextKeys(checkpoint, keys, "text_config") if inside else keys


class _TextKeys(NestedKeys):
    def unread(self) -> tuple[str, ...]:
        return self._keys.unread()


def stage_count(keys: Keys) -> int | None:
    """Entries of `compress_ratios` behind those of the config's own layers; `None` if it does not say."""
    ratios, layers = keys.get("compress_ratios", INTEGERS), keys.get("num_hidden_layers", INTEGER)
    return None if ratios is None or layers is None or len(ratios) <= layers else len(ratios) - layers


def _backbone(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
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
    if isinstance(stages.value, int):
        if not 1 <= stages.value <= 64:
            where = stages.source.where if stages.source else "backbone.layers"
            raise PairError("layers", where, f"{stages.value} stages", "1 to 64")
        ids = tuple(layers + i for i in range(stages.value))
        book.settle("stages.layers", [], book.rule(ids, "num_hidden_layers + i"))
    else:
        book.settle("stages.layers", [], note=note)
    for axis, key, default in (
        ("hidden_size", "hidden_size", None),
        ("intermediate_size", "moe_intermediate_size", None),
        ("heads", "num_attention_heads", None),
        ("kv_heads", "num_key_value_heads", 1),
        ("head_dim", "head_dim", 512),
    ):
        fallback = None if default is None else book.rule(default, "DeepseekV4Config default")
        book.settle(f"backbone.{axis}", keys.claims(INTEGER, key), fallback, note=f"no {key}")
    eps = keys.claims(NUMBER, "rms_norm_eps")
    book.settle("backbone.norm_eps", eps, book.rule(1e-6, "DeepseekV4Config default"))
    book.settle("backbone.activation", [], book.rule("silu", "silu(gate) * up, both clamped to swiglu_limit"))
    book.settle("backbone.attention_bias", [], book.rule(False))
    book.settle("backbone.qk_norm", [], book.rule(True, "kv_norm, and queries normalised without a weight"))


def _taps(book: AxisBook, keys: Keys) -> None:
    """V4: the mean over the streams after the layer; V4.1: at its entry, which is after the layer before."""
    claims = keys.claims(INTEGERS, "dspark_target_layer_ids")
    if keys.get("model_type", TEXT) in ("deepseek_v41", "deepseek_v41_text"):
        reason = "V4.1: id n is the entry of layer n"
        claims = [
            Sourced("value", tuple(integer(n) - 1 for n in claim.value), claim.source, reason)
            for claim in claims
            if isinstance(claim.value, tuple)
        ]
    common.enter_taps(book, claims, note="draft/config.json states no dspark_target_layer_ids")
    book.settle_each("taps.state", fallback=book.rule("stream_mean", "mean over the residual streams"))


def _attention(book: AxisBook, keys: Keys) -> None:
    window = keys.claim("sliding_window", INTEGER)
    book.settle_each("attention.window", [window], note="draft/config.json states no sliding_window")
    rule = book.rule("anchor", "every slot sees the last sliding_window context rows")
    book.settle_each("attention.window_rule", fallback=rule)
    book.settle_each("attention.causal", fallback=book.rule(False, "the rows of a block see each other"))
    head_dim = book.value("backbone.head_dim")
    scale = book.rule(head_dim**-0.5, "head_dim ** -0.5") if head_dim and head_dim > 0 else None
    book.settle_each("attention.scale", fallback=scale)
    for name, value in (("sinks", True), ("gate", "none"), ("value_norm", True), ("kv_shared", True)):
        book.settle_each(f"attention.{name}", fallback=book.rule(value, "one latent row is key and value"))


def read_stage_rope(book: AxisBook, keys: Keys) -> None:
    """Enter all `rope` axes, stage by stage from its own entry of `compress_ratios`."""
    ratios, first = keys.get("compress_ratios", INTEGERS) or (), keys.get("num_hidden_layers", INTEGER)
    stages = book.value("backbone.layers") or 0
    entries = ratios[first : first + stages] if first is not None else ()
    theta = keys.claim("rope_theta", NUMBER)
    plain = book.rule(None, "DSpark stages are trained with plain rope")
    if len(entries) == stages and any(entries):
        book.settle("rope.scaling", [stated(_scalings(keys, entries), keys.where("compress_ratios"))])
        thetas = tuple(_theta(keys, theta, ratio) for ratio in entries)
        book.settle("rope.theta", [stated(thetas, keys.where("compress_ratios"))])
    else:
        where = keys.where("compress_ratios")
        own = stated(None, where) if entries and len(entries) == stages else plain
        book.settle_each("rope.scaling", [own])
        book.settle_each("rope.theta", [theta], note="draft/config.json states no rope_theta")
    dims = keys.claim("qk_rope_head_dim", INTEGER)
    book.settle_each("rope.rotary_dims", [dims], note="draft/config.json states no qk_rope_head_dim")
    book.settle_each("rope.placement", fallback=book.rule("last", "the last qk_rope_head_dim dimensions"))
    book.settle_each("rope.layout", fallback=book.rule("interleaved", "pairs of neighbours"))
    book.settle_each("rope.attention_factor", fallback=book.rule(1.0, "no factor on cosine and sine"))
    book.settle_each("rope.positions", fallback=book.rule("plain"))


def yarn(keys: Keys) -> Record | None:
    """The scaling of compressed layers, as `rope_scaling` or `rope_parameters/compress` state it."""
    for place in ("rope_scaling", "rope_parameters/compress"):
        if keys.has(place) and keys.get(place, OBJECT) is not None:
            fields = {name: keys.get(f"{place}/{name}", NUMBER) for name in _YARN}
            if fields["factor"] is not None and fields["original_max_position_embeddings"] is not None:
                return record("yarn", fields)
    return None


def _scalings(keys: Keys, ratios: tuple[int, ...]) -> Value:
    return tuple(yarn(keys) if ratio else None for ratio in ratios)


def _theta(keys: Keys, plain: Sourced | None, ratio: int) -> float:
    compressed = keys.get("compress_rope_theta", NUMBER)
    if ratio:
        return float(160000 if compressed is None else compressed)
    return float(plain.value) if plain is not None else 10000.0  # type: ignore[arg-type]


def _tables(book: AxisBook) -> None:
    borrowed = book.rule("target", "embed and head are the target's")
    book.settle("embedding.source", [], borrowed)
    book.settle("embedding.scale", [], book.rule(1.0))
    book.settle("head.source", [], borrowed)
    common.enter_full_vocabulary(book)
    book.settle("head.softcap", [], book.rule(None))
    book.settle("head.softcap_order", [], book.rule("before_sequence_head"))
    book.settle("head.multiplier", [], book.rule(1.0))


def _heads(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    ranks = keys.claims(INTEGER, "dspark_markov_rank")
    for name in draft.tensors:
        found = draft.shape(name)
        if re.fullmatch(MARKOV[0], name) and found is not None and len(found) == 2:
            ranks.append(shape(found[1], draft.where_tensor(name)))
    book.settle("markov.kind", [], book.rule("vanilla"))
    book.settle("markov.rank", ranks, note="draft/config.json states no dspark_markov_rank")
    book.settle("markov.previous", [], book.rule("previous_token"))
    reads = book.rule("pre_norm", "the collapsed hidden state before the norm")
    book.settle("confidence.input", [], reads)
    book.settle("confidence.bias", [], book.rule(False))
    book.settle("confidence.with_markov", [], book.rule(True))
