"""EAGLE-3 heads that are not in the speculators format: SafeAILab, SpecForge, ModelOpt, AngelSlim.

One decoder layer (`midlayer`) whose attention reads [norm(embedding); norm(feature)]; the residual stream
starts from the feature as fc gives it, and the layer's output is the next row's feature. Drafted ids are
offsets into the target's vocabulary: target = i + d2t[i]. Reference: SafeAILab/EAGLE @ 148042c
`eagle/model/cnets.py`; SpecForge @ a6b6b02 `modeling/draft/llama3_eagle.py` agrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, InputError, PairError, Sourced, TargetSpec
from truedraft.formats._book import AxisBook
from truedraft.formats._canonical import MODEL_PREFIX, renamed
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, Keys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import read_attention
from truedraft.formats.axes.backbone import presence, read_backbone
from truedraft.formats.axes.rope import read_rope
from truedraft.formats.readers.eagle3.tables import read_eagle3_tables
from truedraft.formats.readers.eagle3.taps import read_eagle3_taps

DIALECT = "eagle"
DESCRIPTION = (
    "EAGLE-3 (LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM, LlamaForCausalLM with draft_vocab_size)"
)
REFERENCE = "SafeAILab/EAGLE@148042c cnets.py"

_NAMES = ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM")
_ANGELSLIM = "Eagle3LlamaForCausalLM"
_POST_NORM = (
    "EAGLE-3.1; but SpecForge from PR 568 to PR 879 (2026-05 to 2026-09) trained norm_output=true with the "
    "state before the norm fed back"
)
_INERT = (
    "eagle_config/has_lm_head",
    "head_dim",
    "num_aux_hidden_states",
    "pretraining_tp",
    "tie_word_embeddings",
)
_FIXED = {
    "eagle_config/use_aux_hidden_state": True,
    "eagle_config/use_input_layernorm_in_first_layer": True,
    "eagle_config/use_last_layernorm": True,
    "eagle_config/use_mtp_layernorm": False,
    "mlp_bias": False,
}
"""ModelOpt's and LlamaConfig's options that would make it another model."""


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect; a plain Llama has no `draft_vocab_size`."""
    if config.get("speculators_model_type") is not None:
        return False
    found = config.get("architectures")
    if not isinstance(found, list) or len(found) != 1:
        return False
    return found[0] in _NAMES or (
        found[0] == "LlamaForCausalLM" and config.get("draft_vocab_size") is not None
    )


def canonical(draft: Checkpoint) -> Checkpoint:
    """`midlayer` as the first of `layers`, which is what vLLM calls it too."""
    return renamed(draft, (MODEL_PREFIX, (r"midlayer\.(.+)", r"layers.0.\1")))


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of an EAGLE-3 drafter; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    for pointer, value in _FIXED.items():
        found = keys.get(pointer, BOOLEAN)
        if found is not None and found is not value:
            raise InputError(f"{keys.where(pointer)}: found {found}, expected {value}, as in every EAGLE-3")
    book = AxisBook("eagle3", DIALECT, REFERENCE, target, overrides)
    _backbone(book, keys, draft)
    common.check_vocabulary(book, keys, "vocab_size")
    common.check_target_width(book, keys)
    angelslim = draft.config["architectures"] == [_ANGELSLIM]
    read_eagle3_taps(book, keys, draft, angelslim=angelslim)
    _fusion(book, keys, draft)
    kinds = read_attention(book, keys, default="LlamaConfig has no sliding layers but those of layer_types")
    _chain(book, keys)
    read_rope(book, keys, kinds)
    _rotary_dims(book)
    read_eagle3_tables(book, keys, draft)
    common.read_regime(book)
    keys.ignore(*common.INERT, *_INERT)
    return book.contract(keys.unread())


def _backbone(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    defaults = {
        "backbone.qk_norm": book.rule(False, "Llama attention"),
        "backbone.attention_bias": book.rule(False, "projections without bias"),
    }
    hidden, heads = keys.get("hidden_size", INTEGER), keys.get("num_attention_heads", INTEGER)
    if hidden and heads and heads > 0 and hidden % heads == 0 and hidden // heads > 1:
        defaults["backbone.head_dim"] = book.rule(hidden // heads, "hidden_size // num_attention_heads")
    read_backbone(book, keys, draft, defaults)


def _fusion(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    for axis, key, tensor in (
        ("tap_norm", "fc_norm", "fc_norm.0.weight"),
        ("concat_norm", "norm_before_fc", "input_norm.weight"),
    ):
        claims = [*keys.claims(BOOLEAN, key, f"eagle_config/{key}"), presence(draft, tensor, "fc.weight")]
        book.settle(f"fusion.{axis}", claims, book.rule(False, "fc(concatenated taps)"))
    if book.value("fusion.tap_norm") and book.value("fusion.concat_norm"):
        raise PairError("norm", keys.where("fc_norm"), "true beside norm_before_fc", "one of the two")
    book.settle("fusion.fc", [], book.rule(True, "fc(concatenated taps)"))
    book.settle("fusion.output_norm", [], book.rule(False, "hidden_norm belongs to the first layer"))


def _chain(book: AxisBook, keys: Keys) -> None:
    book.settle("chain.token", [], book.rule("next", "input_ids[:, 1:] beside the features"))
    book.settle("chain.position_offset", [], book.rule(0, "position_ids from 0, as the features'"))
    residual = keys.claims(BOOLEAN, "norm_before_residual", "eagle_config/norm_before_residual")
    raw = book.rule(False, "residual = hidden_states before hidden_norm")
    book.settle("chain.norm_before_residual", residual, raw)
    output = keys.claims(BOOLEAN, "norm_output", "eagle_config/norm_output")
    claims = [Sourced("value", "post_norm" if c.value else "residual", c.source) for c in output]
    remark = _POST_NORM if any(c.value == "post_norm" for c in claims) else ""
    book.settle("chain.feedback", claims, book.rule("residual", "the layer's output"), remark=remark)
    book.settle("chain.steps", [], note="no file of the checkpoint states it")


def _rotary_dims(book: AxisBook) -> None:
    """The trainers rotate the whole head whatever the config says; vLLM and transformers read it."""
    dims, head_dim = book.state("rope.rotary_dims"), book.value("backbone.head_dim")
    if dims.source is None or dims.source.kind != "stated" or not isinstance(dims.value, tuple):
        return
    whole = book.rule((head_dim,) * len(dims.value), "_init_rope: the whole head; so does SpecForge@a6b6b02")
    book.settle("rope.rotary_dims", [whole, dims])
