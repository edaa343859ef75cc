"""Poolside's DFlash drafters for Laguna.

As DFlash, but: every tap has a norm of its own before concatenation; context rows also pass each layer's
input norm; attention outputs are scaled per head by softplus(g_proj(normed input)) before o_proj; query, key
and value projections are one tensor. Reference: vLLM 0.32.0 `models/laguna_dflash.py` and `laguna.py`, by the
producer (vllm-project/vllm PR 46853); SGLang PR 29446 agrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, InputError, Sourced, TargetSpec, shape, stated
from truedraft.formats._book import AxisBook
from truedraft.formats._canonical import MODEL_PREFIX, renamed, unfused
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGERS, Keys, Kind
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import read_attention
from truedraft.formats.axes.backbone import presence, read_backbone
from truedraft.formats.axes.block import read_block
from truedraft.formats.axes.rope import read_rope
from truedraft.formats.readers.zlab import read_causal, read_tables

DIALECT = "laguna"
DESCRIPTION = "Laguna DFlash (DFlashLagunaForCausalLM)"
REFERENCE = "vllm-project/vllm@v0.32.0 laguna_dflash.py"

_GATES = {True: "softplus", "per-head": "softplus", False: "none", "disabled": "none"}
_GATING = Kind("true, false or per-head", lambda value: isinstance(value, bool | str))
_CAPTURES = (
    "dflash_config/aux_hidden_state_layer_ids",
    "aux_hidden_state_layer_ids",
    "eagle_aux_hidden_state_layer_ids",
)
"""The same taps counted from the embeddings: id n is the residual stream after n layers."""


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect."""
    if config.get("speculators_model_type") is not None:
        return False
    named = config.get("architectures") == ["DFlashLagunaForCausalLM"]
    unnamed = config.get("architectures") is None and config.get("model_type") == "laguna"
    return named or (unnamed and isinstance(config.get("dflash_config"), dict))


def canonical(draft: Checkpoint) -> Checkpoint:
    """Fused projections as their parts, and the taps' norms under vLLM's EAGLE-3 name."""
    norms = (r"aux_hidden_norms\.([0-9]+)\.weight", r"fc_norm.\1.weight")
    return unfused(renamed(draft, (MODEL_PREFIX, norms)))


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of a Laguna drafter; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    book = AxisBook("dflash", DIALECT, REFERENCE, target, overrides)
    defaults = {
        "backbone.activation": book.rule("silu", "the MLP is silu(gate) * up"),
        "backbone.attention_bias": book.rule(False, "LagunaConfig default"),
    }
    read_backbone(book, keys, draft, defaults)
    common.check_vocabulary(book, keys, "vocab_size", "draft_vocab_size")
    common.check_borrowed_width(book)
    _taps(book, keys)
    _fusion(book, draft)
    read_block(book, keys, "unused", "dflash_config/block_size", "block_size")
    kinds = read_attention(book, keys)
    _gate(book, keys, draft)
    read_causal(book, keys, kinds)
    read_rope(book, keys, kinds)
    read_tables(book, keys)
    common.read_regime(book)
    keys.ignore(*common.INERT, "dflash_config/num_target_layers", "tie_word_embeddings")
    return book.contract(keys.unread())


def _taps(book: AxisBook, keys: Keys) -> None:
    claims = keys.claims(INTEGERS, "dflash_config/target_layer_ids", "target_layer_ids")
    for pointer in _CAPTURES:
        ids = keys.get(pointer, INTEGERS)
        if ids is not None:
            claims.append(stated(tuple(n - 1 for n in ids), keys.where(pointer)))
    common.enter_taps(book, claims, note="draft/config.json states no target_layer_ids")


def _fusion(book: AxisBook, draft: Checkpoint) -> None:
    norms = presence(draft, "fc_norm.0.weight", "fc.weight")
    context = "hidden_norm(fc(concatenation of aux_hidden_norms[i](tap i)))"
    book.settle("fusion.tap_norm", [norms], book.rule(True, context))
    book.settle("fusion.concat_norm", [], book.rule(False, context))
    book.settle("fusion.fc", [], book.rule(True, context))
    book.settle("fusion.output_norm", [], book.rule(True, context))
    every = book.rule(True, "_project_context_kv applies each layer's input_layernorm")
    book.settle("fusion.input_norm_on_context", [], every)


def _gate(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    claims: list[Sourced] = []
    gating = keys.get("gating", _GATING)
    if gating is not None:
        if gating not in _GATES:
            raise InputError(
                f"{keys.where('gating')}: found {gating!r:.80}, expected true, false or per-head (a gate per "
                "element is not supported)"
            )
        claims.append(stated(_GATES[gating], keys.where("gating")))
    weight = "layers.0.self_attn.g_proj.weight"
    seen = presence(draft, weight, "layers.0.self_attn.o_proj.weight")
    if seen is not None and seen.source is not None:
        claims.append(shape("softplus" if seen.value else "none", seen.source.where))
    book.settle_each("attention.gate", claims, book.rule("softplus", "LagunaConfig: gating true, per head"))
