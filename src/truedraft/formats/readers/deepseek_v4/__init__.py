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

from truedraft.contract import Contract, Sourced, TargetSpec, shape
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._canonical import renamed
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, INTEGERS, Keys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.block import BlockClaims, enter_block, enter_slots
from truedraft.formats.readers.deepseek_v4.arithmetic import read_arithmetic
from truedraft.formats.readers.deepseek_v4.backbone import read_stage_sizes
from truedraft.formats.readers.deepseek_v4.keys import is_v41, text_keys
from truedraft.formats.readers.deepseek_v4.rope import read_stage_rope
from truedraft.formats.readers.zlab import read_fusion

DIALECT = "deepseek_v4"
DESCRIPTION = "DSpark inside DeepSeek-V4 (dspark_* keys)"
REFERENCE = "deepseek-ai/DeepSeek-V4-Flash-DSpark inference/model.py"

MARKOV = (r"mtp\.([0-9]+)\.markov_head\.(?:embed|markov_w1)\.weight", r"mtp.\1.markov_head.markov_w1.weight")
_MARKOV_OUT = (
    r"mtp\.([0-9]+)\.markov_head\.(?:head|markov_w2)\.weight",
    r"mtp.\1.markov_head.markov_w2.weight",
)


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
    read_stage_sizes(book, keys, draft)
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
    read_arithmetic(book, keys, draft)
    _tables(book)
    _heads(book, keys, draft)
    common.read_regime(book)
    # All other keys are the target's own.
    return book.contract(tuple(key for key in keys.unread() if "/dspark_" in key))


def _taps(book: AxisBook, keys: Keys) -> None:
    """V4: the mean over the streams after the layer; V4.1: at its entry, which is after the layer before."""
    claims = keys.claims(INTEGERS, "dspark_target_layer_ids")
    if is_v41(keys):
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
