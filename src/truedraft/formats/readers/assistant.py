"""Muse Glimmer's assistant: a DFlash drafter in transformers' own layout.

Flat config, no `dflash_config`; `fc` and `hidden_norm` are `encoder.fc` and `encoder.output_norm_enc`;
embedding and head are the target's, the embedding without its norm. Blocks are bidirectional in all layers.
Reference: transformers 5.23.0, `models/muse_glimmer_assistant` and `DFlashTokenCandidateGenerator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, TargetSpec, inferred
from truedraft.formats._book import AxisBook
from truedraft.formats._canonical import renamed
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import Keys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import read_attention
from truedraft.formats.axes.backbone import read_backbone
from truedraft.formats.axes.block import read_block
from truedraft.formats.axes.rope import read_rope
from truedraft.formats.readers.zlab import read_fusion, read_tables

DIALECT = "transformers"
DESCRIPTION = "Muse Glimmer assistant (MuseGlimmerAssistantModel)"
REFERENCE = "huggingface/transformers@v5.23.0 muse_glimmer_assistant"

_LAST_TAP = (
    "the last layer is tapped: DFlashTokenCandidateGenerator takes hidden_states, whose last entry "
    "transformers gives after the final norm; engines capture the residual stream"
)
_WINDOW = (
    "transformers' own paths differ by one: FlashAttention allows a distance of W-1, the mask of sdpa and "
    "eager (sliding_window_bidirectional_overlay) one of W; W-1 is also vLLM's and z-lab's"
)


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect."""
    if config.get("speculators_model_type") is not None:
        return False
    named = config.get("architectures") == ["MuseGlimmerAssistantModel"]
    return named or config.get("model_type") == "muse_glimmer_assistant"


def canonical(draft: Checkpoint) -> Checkpoint:
    """The encoder's two tensors under z-lab's names."""
    return renamed(
        draft,
        (
            (r"encoder\.fc\.(weight)", r"fc.\1"),
            (r"encoder\.output_norm_enc\.(weight)", r"hidden_norm.\1"),
        ),
    )


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of an assistant; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    book = AxisBook("dflash", DIALECT, REFERENCE, target, overrides)
    no_bias = book.rule(False, "projections without bias")
    read_backbone(book, keys, draft, {"backbone.attention_bias": no_bias})
    common.check_vocabulary(book, keys, "vocab_size")
    common.check_borrowed_width(book)
    common.read_taps(book, keys, "target_layer_ids", last_layer=inferred("post_norm", _LAST_TAP))
    read_fusion(book)
    read_block(book, keys, "unused", "block_size")
    kinds = read_attention(book, keys)
    window = book.value("attention.window")
    if window and any(window):
        book.settle("attention.window", [inferred(window, _WINDOW)])
    bidirectional = book.rule(False, "create_bidirectional_mask for full and for sliding layers")
    book.settle_each("attention.causal", fallback=bidirectional)
    read_rope(book, keys, kinds)
    read_tables(book, keys)
    common.read_regime(book)
    keys.ignore(*common.INERT, "tie_word_embeddings")
    return book.contract(keys.unread())
