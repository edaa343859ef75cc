"""What DeepSeek-V4's stages compute beside attention: hyper-connections, low-rank maps, experts.

The stages have the target's own values, except that `dspark_n_routed_experts` and
`dspark_num_experts_per_tok` (V4.1) win over the target's keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from truedraft.contract import PairError, Sourced, shape, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, NUMBER, TEXT, Keys
from truedraft.formats.axes.backbone import agreed_size, presence
from truedraft.formats.readers.deepseek_v4.backbone import DEFAULT, STAGE
from truedraft.formats.readers.deepseek_v4.keys import is_v41
from truedraft.formats.target_bounds import MAX_SINKHORN

MAX_EXPERTS = 4096
"""Most experts that are believed; published stages have 128 to 384."""

_V41 = "V4.1, as vLLM and SGLang read it"


def read_arithmetic(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    """Enter all `stages` axes but `stages.layers`; needs the `backbone` axes."""
    _streams(book, keys, draft)
    _low_ranks(book, keys, draft)
    _experts(book, keys, draft)
    _router(book, keys, draft)


def _streams(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    streams = [keys.claim("hc_mult", INTEGER), agreed_size(draft, STAGE + "hc_head_base", 0)]
    book.settle("stages.streams", streams, book.rule(4, DEFAULT))
    book.settle("stages.mix_eps", keys.claims(NUMBER, "hc_eps"), book.rule(1e-6, DEFAULT))
    rounds = book.settle(
        "stages.sinkhorn_iterations", keys.claims(INTEGER, "hc_sinkhorn_iters"), book.rule(20, DEFAULT)
    )
    if integer(rounds.value) > MAX_SINKHORN and rounds.source is not None:
        raise PairError("layers", rounds.source.where, f"{rounds.value} rounds", f"1 to {MAX_SINKHORN}")
    heads = [name for name in draft.tensors if re.fullmatch(STAGE + "hc_head_fn", name)]
    own = [shape("head", draft.where_tensor(name)) for name in heads[:1]]
    if is_v41(keys):
        last = book.rule("last_mix", f"{_V41}: the last FFN's own input weights")
        book.settle("stages.collapse", [last, *own] if own else [], last)
        book.settle("stages.query_head_norm", [], book.rule(False, _V41))
    else:
        book.settle("stages.collapse", own, book.rule("head", "hc_head_fn, hc_head_base, hc_head_scale"))
        book.settle("stages.query_head_norm", [], book.rule(True, "x * rsqrt(mean(x^2) + eps) per head"))


def _low_ranks(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    query = [keys.claim("q_lora_rank", INTEGER), agreed_size(draft, STAGE + r"attn\.wq_a\.weight", 0)]
    book.settle("stages.query_rank", query, book.rule(1024, DEFAULT))
    book.settle("stages.output_groups", keys.claims(INTEGER, "o_groups"), book.rule(8, DEFAULT))
    rows = agreed_size(draft, STAGE + r"attn\.wo_a\.weight", 0)
    stated_rank = keys.claim("o_lora_rank", INTEGER)
    rank = _part(rows, book.value("stages.output_groups"))
    book.settle("stages.output_rank", [stated_rank, rank], book.rule(1024, DEFAULT))


def _experts(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    gate = agreed_size(draft, STAGE + r"ffn\.gate\.weight", 0)
    experts = [*_first(keys, "dspark_n_routed_experts", "n_routed_experts"), gate]
    count = book.settle("stages.experts", experts, book.rule(256, DEFAULT))
    if integer(count.value) > MAX_EXPERTS and count.source is not None:
        raise PairError("layers", count.source.where, f"{count.value} experts", f"1 to {MAX_EXPERTS}")
    chosen = _first(keys, "dspark_num_experts_per_tok", "num_experts_per_tok")
    book.settle("stages.experts_per_token", chosen, book.rule(6, DEFAULT))
    shared = agreed_size(draft, STAGE + r"ffn\.shared_experts\.w[13]\.weight", 0)
    width = _part(shared, book.value("backbone.intermediate_size"))
    if shared is None and gate is not None and gate.source is not None:
        width = shape(0, f"{gate.source.where}: no ffn.shared_experts")
    # vLLM builds one expert so many times as wide; transformers knows one expert only
    claims = [keys.claim("n_shared_experts", INTEGER), width]
    book.settle("stages.shared_experts", claims, book.rule(1, DEFAULT))
    limit = keys.claims(NUMBER, "swiglu_limit")
    if not limit and keys.has("swiglu_limit"):
        limit = [stated(None, keys.where("swiglu_limit"))]
    note = "draft/config.json has no swiglu_limit; without it DeepseekV4Config takes 10, vLLM and SGLang none"
    book.settle("stages.swiglu_limit", limit, note=note)


def _router(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    scoring = keys.claims(TEXT, "scoring_func")
    book.settle("stages.scoring", scoring, book.rule("sqrtsoftplus", DEFAULT))
    method = keys.claim("topk_method", TEXT)
    steered = None if method is None else Sourced("value", method.value == "noaux_tc", method.source)
    held = _held_bias(draft)
    rule = book.rule(True, "topk_method noaux_tc; stages never route by hash")
    book.settle("stages.router_bias", [steered, held], rule)
    normalised = keys.claims(BOOLEAN, "norm_topk_prob")
    book.settle("stages.normalised_weights", normalised, book.rule(True, DEFAULT))
    scaling = keys.claims(NUMBER, "routed_scaling_factor")
    book.settle("stages.routed_scaling", scaling, book.rule(1.5, DEFAULT))


def _held_bias(draft: Checkpoint) -> Sourced | None:
    """One stage with a bias asks for one in all: the layout then names those that lack it."""
    own = [name for name in draft.tensors if re.fullmatch(STAGE + r"ffn\.gate\.bias", name)]
    return presence(draft, min(own, default="mtp.0.ffn.gate.bias"), "mtp.0.ffn.gate.weight")


def _first(keys: Keys, *pointers: str) -> Sequence[Sourced]:
    """What the first of these keys states that is there; all count as read."""
    return keys.claims(INTEGER, *pointers)[:1]


def _part(rows: Sourced | None, divisor: int | None) -> Sourced | None:
    """How many times (or, of a product, the other factor) the divisor fits, if it fits evenly."""
    if rows is None or rows.source is None or not divisor:
        return None
    count, rest = divmod(integer(rows.value), divisor)
    return shape(count, rows.source.where) if not rest else None
