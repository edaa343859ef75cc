"""DeepSpec's Qwen3 checkpoints: DSpark, and its DFlash baseline.

All are anchor-first: slot j predicts anchor+j+1. With `markov_rank` 0 and no confidence head the files
are those published as `dflash_*_block7`; they carry DFlash's name but not its slot convention.
Reference: deepseek-ai/DeepSpec @ afdfa7c, `deepspec/modeling/dspark`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, TargetSpec
from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import Keys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import read_attention
from truedraft.formats.axes.backbone import read_backbone
from truedraft.formats.axes.block import read_block
from truedraft.formats.axes.rope import read_rope
from truedraft.formats.axes.sequence_heads import SequenceHeads
from truedraft.formats.readers.zlab import read_fusion

DIALECT = "deepspec"
DESCRIPTION = "DeepSpec DSpark (Qwen3DSparkModel)"
REFERENCE = "deepseek-ai/DeepSpec@afdfa7c modeling/dspark"


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect."""
    named = config.get("architectures") == ["Qwen3DSparkModel"]
    return named and config.get("speculators_model_type") is None


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of a DeepSpec drafter; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    heads = SequenceHeads(keys, draft)
    book = AxisBook("dflash" if heads.absent else "dspark", DIALECT, REFERENCE, target, overrides)
    read_backbone(book, keys, draft)
    common.check_vocabulary(book, keys, "vocab_size")
    common.read_taps(book, keys, "target_layer_ids", "dflash_config/target_layer_ids")
    read_fusion(book)
    read_block(book, keys, "predicts_next", "block_size")
    kinds = read_attention(book, keys)
    book.settle_each("attention.causal", fallback=book.rule(False, "is_causal=False in every layer"))
    read_rope(book, keys, kinds)
    enter_own_tables(book)
    if not heads.absent:
        heads.enter(book)
    common.read_regime(book)
    keys.ignore(*common.INERT, "tie_word_embeddings", "markov_head_type", "confidence_head_with_markov")
    return book.contract(keys.unread())


def enter_own_tables(book: AxisBook) -> None:
    """Enter all `embedding` and `head` axes but `head.softcap_order`: copies of both tables are saved."""
    own = book.rule("own", "embed_tokens and lm_head are frozen copies of the target's")
    book.settle("embedding.source", [], own)
    book.settle("embedding.scale", [], book.rule(1.0))
    book.settle("head.source", [], own)
    common.enter_full_vocabulary(book)
    book.settle("head.softcap", [], book.rule(None, "the Qwen3 models have none"))
    book.settle("head.multiplier", [], book.rule(1.0))
