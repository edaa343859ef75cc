"""The table of all axes. Adding a convention to truedraft starts with one entry here.

Meanings are normalised: readers convert each producer's keys to them. References to the conventions
are in `docs/contract.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from truedraft.contract import _values as t
from truedraft.contract._axis import Alternatives, Axis, Extent, no_alternatives
from truedraft.contract._values import Value, ValueType

if TYPE_CHECKING:
    from truedraft.contract._contract import Contract

BLOCK_FAMILIES = frozenset({"dflash", "dspark"})
CHAIN_FAMILIES = frozenset({"eagle3"})
FAMILIES = BLOCK_FAMILIES | CHAIN_FAMILIES

ROPE_SCALINGS = {
    "linear": frozenset({"factor"}),
    "yarn": frozenset({"factor", "original_max_position_embeddings"}),
    "llama3": frozenset(
        {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}
    ),
}
"""Rope scalings that drafters can run, with the numbers that each needs (formulas: `models/rope.py`)."""


def _others(*options: Value) -> Alternatives:
    return lambda contract: options


def _flips(name: str) -> Alternatives:
    """All entries true, all false, and each single entry flipped."""

    def alternatives(contract: Contract) -> tuple[Value, ...]:
        now = contract.tuple_of(name)
        singles = [(*now[:i], not now[i], *now[i + 1 :]) for i in range(len(now))]
        return (tuple(True for _ in now), tuple(False for _ in now), *singles)

    return alternatives


def _each(name: str, change: Callable[[Value], tuple[Value, ...]]) -> Alternatives:
    """The changed entries put in place of all entries that have the old value."""

    def alternatives(contract: Contract) -> tuple[Value, ...]:
        now = contract.tuple_of(name)
        out: list[Value] = []
        for old in dict.fromkeys(now):
            for new in change(old):
                out.append(tuple(new if entry == old else entry for entry in now))
        return tuple(out)

    return alternatives


def _tap_alternatives(contract: Contract) -> tuple[Value, ...]:
    """All ids moved by 1 or 2, in this order and the other way round."""
    taps = [int(str(k)) for k in contract.tuple_of("taps.layers")]
    last = contract.target.layers - 1
    shifted = [tuple(k + step for k in taps) for step in (-2, -1, 1, 2)]
    inside = [ids for ids in (*shifted, tuple(taps)) if ids and min(ids) >= -1 and max(ids) <= last]
    return (*inside[:-1], *(ids[::-1] for ids in reversed(inside)))


def _windows(contract: Contract) -> tuple[Value, ...]:
    """Each window dropped, halved, doubled, moved by 1; one layer's dropped; one for the layers without."""
    now = contract.tuple_of("attention.window")
    sizes = [int(str(w)) for w in dict.fromkeys(now) if w is not None]
    out: list[Value] = []
    for size in sizes:
        for other in (None, size // 2, size - 1, size + 1, size * 2):
            if other is None or other > 0:
                out.append(tuple(other if entry == size else entry for entry in now))
    if len(now) > 1:
        out += [(*now[:i], None, *now[i + 1 :]) for i, entry in enumerate(now) if entry is not None]
    for size in sizes or _WINDOWS:
        out.append(tuple(size if entry is None else entry for entry in now))
    return tuple(out)


_THETAS = (1e4, 5e5, 1e6, 1e7)
_WINDOWS = tuple(2**n for n in range(4, 13))
"""Bases of published drafters; windows up to the largest published one, in steps that bracket any."""


def _theta_change(theta: Value) -> tuple[Value, ...]:
    return tuple(other for other in _THETAS if other != theta)


def _proposals(contract: Contract) -> tuple[Value, ...]:
    """One more and one less, and the lengths of published drafters."""
    now = contract.get("block.proposals")
    near = () if now is None else tuple(n for n in (now - 1, now + 1) if n > 0)
    return (*near, 5, 7, 8, 15)


def _mask_ids(contract: Contract) -> tuple[Value, ...]:
    """Ids that stand for no text, and the last row of the embedding table."""
    target = contract.target
    return (*target.special_token_ids, *target.stop_token_ids, target.vocab_size - 1)


def _embedding_scales(contract: Contract) -> tuple[Value, ...]:
    return (1.0, contract.target.hidden_size**0.5)


def _scaling_change(contract: Contract) -> tuple[Value, ...]:
    """No scaling on the layers that have one, and each layer's scaling on all of them."""
    now = contract.tuple_of("rope.scaling")
    used = [entry for entry in dict.fromkeys(now) if entry is not None]
    return tuple((entry,) * len(now) for entry in (None, *used)) if used else ()


def _placements(contract: Contract) -> tuple[Value, ...]:
    """The other end of the head, where only a part of it is rotated."""
    dims, size = contract.tuple_of("rope.rotary_dims"), contract.get("backbone.head_dim")
    return tuple((word,) * len(dims) for word in ("first", "last")) if dims and size not in dims else ()


def _axis(
    name: str,
    type_: ValueType,
    meaning: str,
    alternatives: Alternatives = no_alternatives,
    *,
    per: Extent = "scalar",
    open_length: bool = False,
    required: frozenset[str] = FAMILIES,
    guesses: tuple[Value, ...] = (),
) -> Axis:
    return Axis(name, type_, meaning, per, open_length, required, alternatives, guesses)


_DSPARK = frozenset({"dspark"})
_NOBODY: frozenset[str] = frozenset()

_TABLE = (
    # taps
    _axis(
        "taps.layers",
        t.integer(-1),
        "k = output of 0-based decoder layer k after both residual adds; "
        "-1 = embedding output; in concatenation order",
        _tap_alternatives,
        per="tap",
        open_length=True,
    ),
    _axis(
        "taps.state",
        t.choice("residual", "post_norm", "stream_mean", "layer_input"),
        "which state of the tapped layer",
        per="tap",
    ),
    _axis("taps.basis", t.choice("plain", "rotated"), "basis of the residual stream behind the features"),
    # fusion
    _axis("fusion.tap_norm", t.boolean(), "a norm per tap before concatenation"),
    _axis("fusion.concat_norm", t.boolean(), "one norm over the concatenated taps, before fc"),
    _axis("fusion.fc", t.boolean(), "a linear map from the concatenated taps to the drafter's hidden size"),
    _axis("fusion.output_norm", t.boolean(), "a norm after fc", _others(True, False)),
    _axis(
        "fusion.input_norm_on_context",
        t.boolean(),
        "context rows also pass each draft layer's input norm",
        _others(True, False),
        required=BLOCK_FAMILIES,
    ),
    # block
    _axis("block.width", t.integer(1), "query rows per block, as trained", required=BLOCK_FAMILIES),
    _axis(
        "block.proposals",
        t.integer(1),
        "tokens that one block yields, as trained",
        _proposals,
        required=BLOCK_FAMILIES,
        guesses=(5, 7, 8, 15),
    ),
    _axis(
        "block.first_slot",
        t.choice("predicts_next", "unused"),
        "predicts_next: slot j predicts anchor+j+1; unused: slot j predicts anchor+j, slot 0 is dropped",
        _others("predicts_next", "unused"),
        required=BLOCK_FAMILIES,
    ),
    _axis(
        "block.anchor_fill",
        t.choice("token", "mask"),
        "what slot 0 embeds",
        _others("token", "mask"),
        required=BLOCK_FAMILIES,
    ),
    _axis(
        "block.mask_token_id",
        t.integer(0),
        "id whose embedding fills the other slots",
        _mask_ids,
        required=BLOCK_FAMILIES,
    ),
    _axis(
        "block.position_offset",
        t.integer(),
        "position of slot 0 minus position of the anchor",
        _others(-1, 0, 1),
        required=BLOCK_FAMILIES,
    ),
    # context
    _axis(
        "context.end",
        t.choice("before_anchor", "through_anchor"),
        "last context row a block sees: the one before the anchor, or the anchor's own",
        _others("before_anchor", "through_anchor"),
        required=BLOCK_FAMILIES,
    ),
    # chain: one row per draft, each made from a token and a hidden state
    _axis(
        "chain.token",
        t.choice("next", "same"),
        "token embedded beside the feature of position t in the row that predicts t+2: "
        "the one at t+1, or the one at t",
        _others("next", "same"),
        required=CHAIN_FAMILIES,
    ),
    _axis(
        "chain.position_offset",
        t.integer(),
        "position of a row minus position of its feature; attention sees differences only",
        required=CHAIN_FAMILIES,
    ),
    _axis(
        "chain.norm_before_residual",
        t.boolean(),
        "the first layer's residual stream starts from the normed feature, not the raw one",
        _others(True, False),
        required=CHAIN_FAMILIES,
    ),
    _axis(
        "chain.feedback",
        t.choice("residual", "post_norm"),
        "hidden state that takes the feature's place in the next row: before or after the final norm",
        _others("residual", "post_norm"),
        required=CHAIN_FAMILIES,
    ),
    _axis("chain.steps", t.integer(1), "drafts per round that the checkpoint asks for", required=_NOBODY),
    # attention
    _axis(
        "attention.window",
        t.optional_integer(1),
        "sliding window W, or none",
        _windows,
        per="layer",
        guesses=(None, *_WINDOWS),
    ),
    _axis(
        "attention.window_rule",
        t.choice("query", "anchor"),
        "query: a key is visible iff q-k < W and k-q < W; "
        "anchor: a context key iff k >= anchor-W, for every slot",
        _each("attention.window_rule", lambda rule: ("anchor" if rule == "query" else "query",)),
        per="layer",
    ),
    _axis(
        "attention.causal",
        t.boolean(),
        "a slot sees only itself and earlier slots of its block",
        _flips("attention.causal"),
        per="layer",
        required=BLOCK_FAMILIES,
    ),
    _axis("attention.scale", t.number(), "factor on the attention scores", per="layer"),
    _axis("attention.sinks", t.boolean(), "a learned extra column in the softmax", per="layer"),
    _axis("attention.gate", t.choice("none", "softplus"), "gate on the attention output", per="layer"),
    _axis("attention.value_norm", t.boolean(), "a norm on values", per="layer"),
    _axis("attention.kv_shared", t.boolean(), "keys and values are one projection", per="layer"),
    # rope
    _axis(
        "rope.theta",
        t.number(),
        "base of the rotary frequencies",
        _each("rope.theta", _theta_change),
        per="layer",
        guesses=_THETAS,
    ),
    _axis("rope.rotary_dims", t.integer(2), "rotated dimensions of each head", per="layer"),
    _axis(
        "rope.placement",
        t.choice("first", "last"),
        "which dimensions of the head are rotated",
        _placements,
        per="layer",
    ),
    _axis(
        "rope.layout",
        t.choice("half", "interleaved"),
        "pairing of the rotated dimensions",
        _each("rope.layout", lambda kind: ("interleaved" if kind == "half" else "half",)),
        per="layer",
    ),
    _axis(
        "rope.scaling",
        t.scaling_record(ROPE_SCALINGS),
        "scaling of the frequencies, or none",
        _scaling_change,
        per="layer",
    ),
    _axis("rope.attention_factor", t.number(), "factor on cosine and sine (YaRN's mscale)", per="layer"),
    _axis("rope.positions", t.choice("plain", "mrope"), "plain positions, or multimodal ones", per="layer"),
    # embedding and head
    _axis(
        "embedding.source",
        t.choice("target", "own"),
        "whose embedding table feeds the block",
        _others("target", "own"),
    ),
    _axis("embedding.scale", t.number(), "factor on raw embedding rows", _embedding_scales),
    _axis(
        "head.source",
        t.choice("target", "own"),
        "whose output head reads the block",
        _others("target", "own"),
    ),
    _axis(
        "head.vocabulary_map",
        t.choice("none", "offset", "absolute"),
        "from draft ids to target ids: none; offset: target = i + d2t[i]; absolute: target = d2t[i]",
        _others("offset", "absolute"),
    ),
    _axis("head.vocabulary", t.integer(1), "draft ids that the head scores"),
    _axis("head.softcap", t.optional_number(), "c: logits become c*tanh(logits/c), or none"),
    _axis(
        "head.softcap_order",
        t.choice("before_sequence_head", "after_sequence_head"),
        "whether the softcap precedes the sequence head's bias",
        required=_DSPARK,
    ),
    _axis("head.multiplier", t.number(), "factor on the logits, before any softcap"),
    # sequence head and confidence
    _axis(
        "markov.kind",
        t.choice("none", "vanilla", "gated", "rnn"),
        "sequence head on the block's logits",
        _others("none", "vanilla", "gated", "rnn"),
        required=_DSPARK,
    ),
    _axis("markov.rank", t.integer(1), "width of the sequence head's embedding", required=_DSPARK),
    _axis(
        "markov.previous",
        t.choice("previous_token", "anchor"),
        "token whose embedding biases a slot: the one before the predicted token (drafted, or the "
        "anchor), or always the anchor",
        _others("previous_token", "anchor"),
        required=_DSPARK,
    ),
    _axis(
        "confidence.input",
        t.choice("none", "post_norm", "pre_norm"),
        "hidden state that the confidence head reads; none: no such head",
        required=_DSPARK,
    ),
    _axis("confidence.bias", t.boolean(), "the confidence head has a bias", required=_DSPARK),
    _axis(
        "confidence.with_markov",
        t.boolean(),
        "the confidence head also reads the Markov embedding of the token drafted before "
        "(whatever markov.previous)",
        required=_DSPARK,
    ),
    # stages: draft layers inside the target's checkpoint
    _axis(
        "stages.layers",
        t.integer(0),
        "layer ids at which a drafter inside the target's checkpoint is addressed, one per draft layer",
        per="layer",
        required=_NOBODY,
    ),
    _axis(
        "stages.compress_ratio",
        t.integer(0),
        "context rows that a draft layer's compressed attention pools into one; 0: its window alone",
        per="layer",
        required=_NOBODY,
    ),
    _axis("stages.streams", t.integer(1), "residual streams (hyper-connections)", required=_DSPARK),
    _axis(
        "stages.mix_eps",
        t.number(),
        "epsilon of the hyper-connections: on their weights, and in every division of Sinkhorn's",
        required=_DSPARK,
    ),
    _axis(
        "stages.sinkhorn_iterations",
        t.integer(1),
        "normalisations of the streams' mixing matrix by rows and columns",
        required=_DSPARK,
    ),
    _axis(
        "stages.collapse",
        t.choice("head", "last_mix"),
        "how the streams become one after the last stage: weights of their own (hc_head), or those of the "
        "last sublayer's input",
        required=_DSPARK,
    ),
    _axis("stages.query_rank", t.integer(1), "width of the queries' low-rank map", required=_DSPARK),
    _axis(
        "stages.query_head_norm",
        t.boolean(),
        "each query head is divided by its root mean square, without a weight",
        required=_DSPARK,
    ),
    _axis(
        "stages.output_groups",
        t.integer(1),
        "groups of neighbouring heads, each with an output map of its own",
        required=_DSPARK,
    ),
    _axis("stages.output_rank", t.integer(1), "width of each group's output", required=_DSPARK),
    _axis("stages.experts", t.integer(1), "routed experts", required=_DSPARK),
    _axis("stages.experts_per_token", t.integer(1), "routed experts that a row passes", required=_DSPARK),
    _axis(
        "stages.shared_experts",
        t.integer(0),
        "width of the expert that all rows pass, in widths of a routed one; 0: none",
        required=_DSPARK,
    ),
    _axis(
        "stages.scoring",
        t.choice("sqrtsoftplus", "sigmoid", "softmax"),
        "from router logits to scores of experts",
        required=_DSPARK,
    ),
    _axis(
        "stages.router_bias",
        t.boolean(),
        "a learned bias is added to the scores where experts are chosen, not where they are weighted",
        required=_DSPARK,
    ),
    _axis(
        "stages.normalised_weights",
        t.boolean(),
        "the chosen experts' scores are divided by their sum",
        required=_DSPARK,
    ),
    _axis("stages.routed_scaling", t.number(), "factor on the routed experts' sum", required=_DSPARK),
    _axis(
        "stages.swiglu_limit",
        t.optional_number(),
        "c: an expert's gate is at most c, its other factor between -c and c; or none",
        required=_DSPARK,
    ),
    # backbone: not conventions but sizes, checked against the tensors
    _axis("backbone.layers", t.integer(1), "draft layers"),
    _axis("backbone.hidden_size", t.integer(1), "width of the drafter's residual stream"),
    _axis("backbone.intermediate_size", t.integer(1), "width of the MLP"),
    _axis("backbone.heads", t.integer(1), "query heads"),
    _axis("backbone.kv_heads", t.integer(1), "key/value heads"),
    _axis("backbone.head_dim", t.integer(2), "dimensions of one head"),
    _axis("backbone.norm_eps", t.number(), "epsilon of the RMS norms"),
    _axis("backbone.activation", t.choice("silu", "gelu", "gelu_tanh"), "activation of the gated MLP"),
    _axis("backbone.attention_bias", t.boolean(), "biases on the attention projections"),
    _axis("backbone.qk_norm", t.boolean(), "a norm per head on queries and keys"),
    # regime: how the features were made when the drafter was trained
    _axis("regime.context_length", t.integer(1), "longest context in training", required=_NOBODY),
    _axis("regime.chat_template", t.text(), "chat template of the training prompts", required=_NOBODY),
    _axis("regime.thinking", t.boolean(), "thinking mode of the training responses", required=_NOBODY),
    _axis("regime.target_dtype", t.text(), "dtype or quantisation behind the features", required=_NOBODY),
)

AXES: dict[str, Axis] = {axis.name: axis for axis in _TABLE}
"""All axes by dotted name, in the order in which they are printed."""
