"""DeepSpec's Qwen3 checkpoints: DSpark, and its DFlash baseline.

All are anchor-first: slot j predicts anchor+j+1. With `markov_rank` 0 and no confidence head the files
are those published as `dflash_*_block7`; they carry DFlash's name but not its slot convention.
Reference: deepseek-ai/DeepSpec @ afdfa7c, `deepspec/modeling/dspark`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, InputError, Sourced, TargetSpec, shape, stated
from truedraft.formats import _common
from truedraft.formats._attention import read_attention
from truedraft.formats._backbone import read_backbone
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, TEXT, Keys
from truedraft.formats._overrides import Overrides
from truedraft.formats._rope import read_rope
from truedraft.formats.zlab import read_fusion

DIALECT = "deepspec"
DESCRIPTION = "DeepSpec DSpark (Qwen3DSparkModel)"
REFERENCE = "deepseek-ai/DeepSpec@afdfa7c modeling/dspark"

_HEADS = ("vanilla", "gated", "rnn")
_CONFIDENCE = ("confidence_head.proj.weight", "confidence_head.proj.bias")


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect."""
    named = config.get("architectures") == ["Qwen3DSparkModel"]
    return named and config.get("speculators_model_type") is None


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of a DeepSpec drafter; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    rank, kind, confident = _rank(keys, draft), _kind(keys, draft), _confident(keys, draft)
    plain = _is(rank, 0) and _is(confident, False)
    book = AxisBook("dflash" if plain else "dspark", DIALECT, REFERENCE, target, overrides)
    read_backbone(book, keys, draft)
    _common.check_vocabulary(book, keys, "vocab_size")
    _common.read_taps(book, keys, "target_layer_ids", "dflash_config/target_layer_ids")
    read_fusion(book)
    _common.read_block(book, keys, "predicts_next", "block_size")
    kinds = read_attention(book, keys)
    book.settle_each("attention.causal", fallback=book.rule(False, "is_causal=False in every layer"))
    read_rope(book, keys, kinds)
    _embedding_and_head(book, plain)
    if not plain:
        _markov(book, rank, kind)
        _confidence(book, keys, draft, confident)
    _common.read_regime(book)
    keys.ignore(*_common.INERT, "tie_word_embeddings", "markov_head_type", "confidence_head_with_markov")
    return book.contract(keys.unread())


def _is(claims: list[Sourced], value: object) -> bool:
    return bool(claims) and all(claim.value == value for claim in claims)


def _rank(keys: Keys, draft: Checkpoint) -> list[Sourced]:
    claims = keys.claims(INTEGER, "markov_rank")
    found = draft.shape("markov_head.markov_w1.weight")
    if found is not None and len(found) == 2:
        claims.append(shape(found[1], draft.where_tensor("markov_head.markov_w1.weight")))
    for claim in claims:
        if integer(claim.value) < 0:
            raise InputError(f"{keys.where('markov_rank')}: found {claim.value}, expected a number >= 0")
    return claims


def _kind(keys: Keys, draft: Checkpoint) -> list[Sourced]:
    claims = keys.claims(TEXT, "markov_head_type")
    for claim in claims:
        if claim.value not in _HEADS:
            where = keys.where("markov_head_type")
            raise InputError(f"{where}: found {claim.value!r:.80}, expected one of {', '.join(_HEADS)}")
    marks = {
        "gated": "markov_head.gate_proj.weight",
        "rnn": "markov_head.joint_proj.weight",
        "vanilla": "markov_head.markov_w1.weight",
    }
    seen = next((shape(k, draft.where_tensor(n)) for k, n in marks.items() if n in draft.tensors), None)
    return [*claims, *([seen] if seen else [])]


def _confident(keys: Keys, draft: Checkpoint) -> list[Sourced]:
    claims = keys.claims(BOOLEAN, "enable_confidence_head")
    weight = _CONFIDENCE[0]
    if weight in draft.tensors:
        claims.append(shape(True, draft.where_tensor(weight)))
    elif "fc.weight" in draft.tensors:
        claims.append(shape(False, f"{draft.where_tensor('fc.weight')}: no {weight}"))
    return claims


def _embedding_and_head(book: AxisBook, plain: bool) -> None:
    own = book.rule("own", "embed_tokens and lm_head are frozen copies of the target's")
    book.settle("embedding.source", [], own)
    book.settle("embedding.scale", [], book.rule(1.0))
    book.settle("head.source", [], own)
    book.settle("head.vocabulary_map", [], book.rule("none"))
    book.settle("head.softcap", [], book.rule(None, "Qwen3DSparkModel has none"))
    if not plain:
        book.settle("head.softcap_order", [], book.rule("before_sequence_head"))
    book.settle("head.multiplier", [], book.rule(1.0))


def _markov(book: AxisBook, rank: list[Sourced], kind: list[Sourced]) -> None:
    if _is(rank, 0):
        book.settle("markov.kind", [stated("none", rank[0].source.where)] if rank[0].source else [])
        for name in ("markov.rank", "markov.previous"):
            book.skip(name, note="a drafter without a Markov head (markov_rank 0)")
        return
    book.settle("markov.kind", kind, note="no markov_head_type, and no tensor settles it")
    book.settle("markov.rank", rank, note="no markov_rank, and no tensor settles it")
    book.settle("markov.previous", [], book.rule("previous_token", "the token before the predicted one"))


def _confidence(book: AxisBook, keys: Keys, draft: Checkpoint, confident: list[Sourced]) -> None:
    if _is(confident, True):
        # That there is a head is stated; what it reads is DeepSpec's rule.
        claims = [book.rule("post_norm", "the head reads the final norm's output")]
    else:
        claims = [Sourced("value", "post_norm" if c.value else "none", c.source) for c in confident]
    note = "no enable_confidence_head, and no tensor settles it"
    head = book.settle("confidence.input", claims, note=note)
    if head.value == "none":
        for name in ("confidence.bias", "confidence.with_markov"):
            book.skip(name, note="a drafter without a confidence head")
        return
    weight, bias = _CONFIDENCE
    seen = weight in draft.tensors
    bias_seen = shape(bias in draft.tensors, draft.where_tensor(weight)) if seen else None
    book.settle("confidence.bias", [bias_seen], book.rule(True))
    with_markov = keys.claims(BOOLEAN, "confidence_head_with_markov")
    hidden, rank = book.value("backbone.hidden_size"), book.value("markov.rank")
    width = (draft.shape(weight) or (0,))[-1:]
    if seen and hidden and rank and width in ((hidden,), (hidden + rank,)):
        with_markov.append(shape(width != (hidden,), draft.where_tensor(weight)))
    book.settle("confidence.with_markov", with_markov, note="no confidence_head_with_markov")
