"""z-lab's DFlash checkpoints, in both config generations.

The first generation has a flat `block_size`, `rope_theta` and `rope_scaling`; since June 2026 `block_size`
stands in `dflash_config` and the rope in `rope_parameters`. Reference: z-lab/dflash @ 07ebd93, `model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, TargetSpec, inferred
from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, NUMBER, Keys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import LayerKinds, read_attention
from truedraft.formats.axes.backbone import read_backbone
from truedraft.formats.axes.block import read_block
from truedraft.formats.axes.rope import read_rope

DIALECT = "zlab"
DESCRIPTION = "z-lab DFlash (DFlashDraftModel)"
REFERENCE = "z-lab/dflash@07ebd93 model.py"

_LAST_TAP = (
    "the last layer is tapped: z-lab's generation would take hidden_states[-1], which transformers gives "
    "after the final norm; engines capture the residual stream, and no published checkpoint decides it"
)


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect: by architecture, or an unnamed one by `dflash_config`."""
    architectures = config.get("architectures")
    named = architectures == ["DFlashDraftModel"]
    unnamed = architectures is None and isinstance(config.get("dflash_config"), dict)
    nested = config.get("dflash_config")
    projector = nested.get("projector_type") if isinstance(nested, dict) else None
    return (
        (named or unnamed)
        and config.get("model_type") in (None, "qwen3")
        and config.get("speculators_model_type") is None
        and projector in (None, "dflash")  # SpecForge names it, with z-lab's layout
    )


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of a z-lab DFlash drafter; `InputError` if its config contradicts itself or the target."""
    keys = Keys(draft)
    book = AxisBook("dflash", DIALECT, REFERENCE, target, overrides)
    read_backbone(book, keys, draft)
    common.check_vocabulary(book, keys, "vocab_size", "draft_vocab_size")
    common.check_borrowed_width(book)
    pointers = ("dflash_config/target_layer_ids", "target_layer_ids")
    common.read_taps(book, keys, *pointers, last_layer=inferred("residual", _LAST_TAP))
    read_fusion(book)
    read_block(book, keys, "unused", "dflash_config/block_size", "block_size")
    kinds = read_attention(book, keys)
    read_causal(book, keys, kinds)
    read_rope(book, keys, kinds)
    read_tables(book, keys)
    common.read_regime(book)
    # Nothing to tie: both tables are the target's.
    keys.ignore(*common.INERT, "tie_word_embeddings", "dflash_config/projector_type")
    return book.contract(keys.unread())


def read_fusion(book: AxisBook) -> None:
    """Enter the `fusion` axes: context = hidden_norm(fc(concatenated taps)), no input norm on top."""
    for name, value in (
        ("tap_norm", False),
        ("concat_norm", False),
        ("fc", True),
        ("output_norm", True),
        ("input_norm_on_context", False),
    ):
        book.settle(f"fusion.{name}", [], book.rule(value, "hidden_norm(fc(taps))"))


def read_causal(book: AxisBook, keys: Keys, kinds: LayerKinds) -> None:
    """Enter `attention.causal`: stated, or by the kind of layer."""
    claims = keys.claims(BOOLEAN, "is_causal", "dflash_config/causal")
    forced = bool(keys.get("dflash_config/use_swa", BOOLEAN))
    if claims or kinds.sliding is None or (forced and not any(kinds.sliding)):
        note = "no is_causal, and no layer_types that would decide it"
        book.settle_each("attention.causal", claims, note=note)
        return
    rule = book.rule(kinds.sliding, "no is_causal: sliding layers are causal, full layers are not")
    book.settle("attention.causal", [], rule)


def read_tables(book: AxisBook, keys: Keys) -> None:
    """Enter all `embedding` and `head` axes of a drafter that borrows both tables from the target."""
    borrowed = book.rule("target", "the checkpoint has no embedding and no head")
    book.settle("embedding.source", [], borrowed)
    scale = keys.claims(NUMBER, "dflash_config/input_embedding_scale")
    target = book.target
    if target.embedding_scale == 1.0:
        book.settle("embedding.scale", scale, book.rule(1.0, "raw rows of the target's table"))
    else:
        note = (
            f"the target ({target.model_type}) scales its embeddings by {target.embedding_scale:.6g}, and "
            "the drafter states no dflash_config/input_embedding_scale"
        )
        book.settle("embedding.scale", scale, note=note)
    book.settle("head.source", [], borrowed)
    common.enter_full_vocabulary(book)
    softcaps = keys.claims(NUMBER, "dflash_config/final_logit_softcapping", "final_logit_softcapping")
    book.settle("head.softcap", softcaps, book.rule(None, "no final_logit_softcapping"))
    multiplier = keys.claims(NUMBER, "dflash_config/output_multiplier")
    book.settle("head.multiplier", multiplier, book.rule(1.0, "no output_multiplier"))
