"""SpecForge's DSpark checkpoints (its DFlash ones have z-lab's layout and are read as such).

DFlash with DSpark's heads, whose keys stand in `dflash_config` with `projector_type` dspark; embedding and
head are the target's. Slot j is trained to predict anchor+j+1 (`_build_dspark_labels_and_mask`), though the
same project's `spec_generate` drops slot 0. `scripts/gates/normalize_dflash_export.py` renames such a
checkpoint to DeepSpec's `Qwen3DSparkModel`; `projector_type` still tells it apart. Reference:
sgl-project/SpecForge @ a6b6b02 `modeling/draft/dspark.py`, `algorithms/common/dflash_family_model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, InputError, TargetSpec, inferred
from truedraft.formats._book import AxisBook
from truedraft.formats._canonical import renamed
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, TEXT, Keys
from truedraft.formats._nested import NestedKeys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import read_attention
from truedraft.formats.axes.backbone import read_backbone
from truedraft.formats.axes.block import read_block
from truedraft.formats.axes.rope import read_rope
from truedraft.formats.axes.sequence_heads import SequenceHeads
from truedraft.formats.readers.zlab import read_causal, read_fusion, read_tables

DIALECT = "specforge"
DESCRIPTION = "SpecForge DSpark (dflash_config.projector_type dspark)"
REFERENCE = "sgl-project/SpecForge@a6b6b02 dspark.py"

_LAST_TAP = (
    "the last layer is tapped: features captured through SGLang are the residual stream, those through "
    "transformers' hidden_states come after the final norm"
)
_INERT = (
    "dflash_config/attention_mode",
    "dflash_config/confidence_head_alpha",
    "dflash_config/projector_type",
    "target_hidden_size",
    "tie_word_embeddings",
)

_HEADS = {
    "markov_rank": INTEGER,
    "markov_head_type": TEXT,
    "enable_confidence_head": BOOLEAN,
    "confidence_head_with_markov": BOOLEAN,
}


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect."""
    nested = config.get("dflash_config")
    projector = nested.get("projector_type") if isinstance(nested, dict) else None
    return projector == "dspark" and config.get("speculators_model_type") is None


def canonical(draft: Checkpoint) -> Checkpoint:
    """Early checkpoints held their heads in a `logit_head` module."""
    return renamed(draft, ((r"logit_head\.((?:markov|confidence)_head\..+)", r"\1"),))


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of a SpecForge drafter; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    heads = SequenceHeads(_head_keys(keys, draft), draft)
    book = AxisBook("dflash" if heads.absent else "dspark", DIALECT, REFERENCE, target, overrides)
    read_backbone(book, keys, draft)
    common.check_vocabulary(book, keys, "vocab_size")
    common.check_borrowed_width(book)
    pointers = ("dflash_config/target_layer_ids", "target_layer_ids")
    common.read_taps(book, keys, *pointers, last_layer=inferred("residual", _LAST_TAP))
    read_fusion(book)
    read_block(book, keys, "predicts_next", "dflash_config/block_size", "block_size")
    kinds = read_attention(book, keys)
    read_causal(book, keys, kinds)
    read_rope(book, keys, kinds)
    read_tables(book, keys)
    if not heads.absent:
        heads.enter(book)
    common.read_regime(book)
    keys.ignore(*common.INERT, *_INERT)
    return book.contract(keys.unread())


def _head_keys(keys: Keys, draft: Checkpoint) -> Keys:
    """The keys of the heads: nested, or at the top as well once the export is normalised for SGLang."""
    nested = NestedKeys(draft, keys, "dflash_config")
    for name, kind in _HEADS.items():
        inner, outer = nested.get(name, kind), keys.get(name, kind)
        if inner is not None and outer is not None and inner != outer:
            raise InputError(
                f"{keys.where(name)}: found {outer!r:.80}, expected {inner!r:.80} ({nested.where(name)})"
            )
    return nested if any(nested.has(name) for name in _HEADS) else keys
