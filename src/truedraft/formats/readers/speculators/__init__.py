"""Directories of vllm-project/speculators: `speculators_model_type` dflash, dspark or eagle3.

The decoder stands below `transformer_layer_config`, the deployment below `speculators_config`. The library
writes a key for every default that it knows, so an absent one means an older or a foreign writer.
Reference: speculators 0.9.0, `config.py` and `models/{dflash,dspark,eagle3}/{config,core}.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, InputError, PairError, Sourced, TargetSpec, UnsupportedError, stated
from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, INTEGERS, OBJECT, TEXT, Keys
from truedraft.formats._nested import DECODER, NestedKeys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import LayerKinds, read_attention
from truedraft.formats.axes.backbone import read_backbone
from truedraft.formats.axes.rope import read_rope
from truedraft.formats.readers.speculators.block import read_blocks
from truedraft.formats.readers.speculators.chain import read_chain
from truedraft.formats.readers.speculators.tables import read_tables

DIALECT = "speculators"
DESCRIPTION = "speculators dflash, dspark and eagle3 (speculators_model_type)"
REFERENCE = "speculators 0.9.0 models"

_FAMILIES = ("dflash", "dspark", "eagle3")
_LATER = ("dflash2", "mtp", "peagle", "xpress")
_CLASSES = {"qwen3": "Qwen3Config", "llama": "LlamaConfig"}

_INERT = (
    "architectures",
    "auto_map",
    "dtype",
    "embed_requires_grad",
    "max_anchors",
    "num_anchors",
    "speculators_config/verifier/architectures",
    "speculators_config/verifier/name_or_path",
    "speculators_version",
    "tie_word_embeddings",
    "torch_dtype",
    "transformers_version",
)
_INERT_BELOW = (
    *common.INERT,
    "mlp_bias",
    "num_aux_hidden_states",
    "num_aux_layers",
    "pretraining_tp",
    "rope_parameters/mrope_section",
    "tie_word_embeddings",
)


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect."""
    return config.get("speculators_model_type") is not None


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of a speculators drafter; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    family = _family(keys)
    if keys.get(DECODER, OBJECT) is None:
        raise InputError(f"{keys.where(DECODER)}: missing, expected an object")
    decoder = NestedKeys(draft, keys, DECODER)
    book = AxisBook(family, DIALECT, f"{REFERENCE}/{family}", target, overrides)
    _backbone(book, decoder, draft)
    common.check_vocabulary(book, decoder, "vocab_size")
    common.check_target_width(book, keys)
    _taps(book, keys)
    kinds = read_attention(
        book, decoder, rule=("anchor", "windows are counted from the anchor"), default=_no_sliding(decoder)
    )
    if family == "eagle3":
        read_chain(book, keys, draft)
    else:
        read_blocks(book, keys, draft, kinds)
    # The library takes one rope for all layers, that of the sliding ones (models/utils.py).
    layers = book.value("backbone.layers") or 0
    read_rope(book, decoder, LayerKinds((True,) * layers, decoder.where("rope_parameters")), partial=False)
    read_tables(book, keys, draft)
    common.read_regime(book)
    keys.ignore(*_INERT)
    decoder.ignore(*_INERT_BELOW)
    return book.contract(keys.unread())


def _family(keys: Keys) -> str:
    stated_type = keys.get("speculators_model_type", TEXT)
    family = str(stated_type).lower()
    where, expected = keys.where("speculators_model_type"), ", ".join(_FAMILIES)
    if family in _LATER:
        raise UnsupportedError(
            f"{where}: found {stated_type!r}, not supported yet, expected one of {expected}"
        )
    if family not in _FAMILIES:
        raise UnsupportedError(f"{where}: found {stated_type!r:.80}, expected one of {expected}")
    algorithm = keys.get("speculators_config/algorithm", TEXT)
    if algorithm is not None and str(algorithm).lower() != family:
        where = keys.where("speculators_config/algorithm")
        raise PairError("family", where, f"{algorithm!r:.80}", f"{family} as speculators_model_type says")
    return family


def _model_type(decoder: Keys) -> str:
    """`AutoConfig` picks the config class by it; without one it is Qwen3Config (models/*/config.py)."""
    model_type = decoder.get("model_type", TEXT)
    if model_type not in (None, *_CLASSES):
        raise InputError(
            f"{decoder.where('model_type')}: found {model_type!r:.80}, expected one of {', '.join(_CLASSES)}"
        )
    return model_type or "qwen3"


def _backbone(book: AxisBook, decoder: Keys, draft: Checkpoint) -> None:
    kind = _model_type(decoder)
    chain = book.family_name == "eagle3"
    if chain and kind == "llama" and decoder.get("mlp_bias", BOOLEAN):
        raise InputError(f"{decoder.where('mlp_bias')}: found true, expected false (no biases in the MLP)")
    values: dict[str, Any] = {"norm_eps": 1e-6, "activation": "silu", "attention_bias": False}
    hidden, heads = decoder.get("hidden_size", INTEGER), decoder.get("num_attention_heads", INTEGER)
    if kind == "qwen3":
        values["head_dim"] = 128
    elif heads and heads > 0:
        values["kv_heads"] = heads
        if hidden and hidden >= heads:
            values["head_dim"] = hidden // heads
    defaults = {f"backbone.{n}": book.rule(v, f"{_CLASSES[kind]} default") for n, v in values.items()}
    # Block drafters have Qwen3 attention whatever the decoder's type (dflash/model_definitions.py).
    normed = not chain or kind == "qwen3"
    defaults["backbone.qk_norm"] = book.rule(normed, "Qwen3 attention" if normed else "Llama attention")
    read_backbone(book, decoder, draft, defaults)


def _no_sliding(decoder: Keys) -> str:
    if _model_type(decoder) == "llama":
        return "LlamaConfig has no sliding layers but those of layer_types"
    return "Qwen3Config: no sliding layers without use_sliding_window"


def _taps(book: AxisBook, keys: Keys) -> None:
    """Id n of a file is the residual stream after n layers: 0 the embeddings, the last before the norm."""
    pointer = f"{'eagle_' if book.family_name == 'eagle3' else ''}aux_hidden_state_layer_ids"
    ids, layers = keys.get(pointer, INTEGERS), book.target.layers
    if ids is not None:
        if "taps.layers" not in book.overrides:
            common.check_taps(list(ids), keys.where(pointer), range(layers + 1))
        claim = stated(tuple(n - 1 for n in ids), keys.where(pointer))
        common.enter_taps(book, [claim], note="")
        return
    note = f"draft/config.json states no {pointer}"
    default = None
    if book.family_name == "eagle3" and keys.get("speculators_config/verifier/name_or_path", TEXT):
        default, note = _default_taps(book, note)
    common.enter_taps(book, [], default, note=note)


def _default_taps(book: AxisBook, note: str) -> tuple[Sourced | None, str]:
    """What loading such a checkpoint fills in (`Eagle3DraftModel.from_pretrained`)."""
    layers = book.target.layers
    ids = [2, layers // 2, layers - 3]
    if len(set(ids)) < len(ids) or min(ids) < 0 or max(ids) > layers:
        return None, f"{note}, and the default {ids} is invalid for {layers} layers"
    return book.rule(tuple(n - 1 for n in ids), f"resolve_target_layer_ids: ids {ids} by default"), note
