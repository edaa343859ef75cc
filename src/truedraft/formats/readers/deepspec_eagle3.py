"""DeepSpec's EAGLE-3 checkpoints for Qwen3 (`Qwen3Eagle3Model`), with their own embedding and head.

Reference: deepseek-ai/DeepSpec @ afdfa7c, `deepspec/modeling/eagle3`, `deepspec/eval/eagle3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truedraft.contract import Contract, InputError, TargetSpec, inferred
from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, Keys
from truedraft.formats._overrides import Overrides
from truedraft.formats.axes import common
from truedraft.formats.axes.attention import read_attention
from truedraft.formats.axes.backbone import read_backbone
from truedraft.formats.axes.rope import read_rope
from truedraft.formats.readers.deepspec import DIALECT, enter_own_tables

DESCRIPTION = "DeepSpec EAGLE-3 (Qwen3Eagle3Model)"
REFERENCE = "deepseek-ai/DeepSpec@afdfa7c modeling/eagle3"

_LAST_TAP = (
    "the last layer is tapped, which DeepSpec's own evaluator refuses; engines capture the residual stream"
)


def matches(config: Mapping[str, Any]) -> bool:
    """Whether a draft config is of this dialect."""
    named = config.get("architectures") == ["Qwen3Eagle3Model"]
    return named and config.get("speculators_model_type") is None


def read(target: TargetSpec, draft: Checkpoint, overrides: Overrides) -> Contract:
    """The contract of a DeepSpec EAGLE-3 drafter; `InputError` for contradictions."""
    keys = Keys(draft)
    book = AxisBook("eagle3", DIALECT, REFERENCE, target, overrides)
    read_backbone(book, keys, draft, counts=("num_hidden_layers", "draft_num_hidden_layers"))
    _one_layer(book)
    common.check_vocabulary(book, keys, "vocab_size")
    common.read_taps(book, keys, "target_layer_ids", last_layer=inferred("residual", _LAST_TAP))
    for name, value in (("tap_norm", False), ("concat_norm", False), ("fc", True), ("output_norm", False)):
        book.settle(f"fusion.{name}", [], book.rule(value, "the chain reads fc(taps)"))
    _chain(book, keys)
    kinds = read_attention(book, keys)
    read_rope(book, keys, kinds, partial=False)
    enter_own_tables(book)
    common.read_regime(book)
    keys.ignore(*common.INERT, "step_loss_decay", "target_model_name_or_path", "tie_word_embeddings")
    return book.contract(keys.unread())


def _one_layer(book: AxisBook) -> None:
    layers = book.state("backbone.layers")
    if layers.value is not None and layers.value != 1 and layers.source is not None:
        # Each further layer would join the embedding again, which DeepSpec's own evaluator refuses to run.
        raise InputError(f"{layers.source.where}: found {layers.value} draft layers, expected 1")


def _chain(book: AxisBook, keys: Keys) -> None:
    pairing = "eval/eagle3: feature i with token i + 1, at position i"
    book.settle("chain.token", [], book.rule("next", pairing))
    book.settle("chain.position_offset", [], book.rule(0, pairing))
    book.settle("chain.norm_before_residual", [], book.rule(False, "the residual is the raw feature"))
    book.settle("chain.feedback", [], book.rule("residual", "the layer's output, before the final norm"))
    steps = keys.claims(INTEGER, "ttt_length")
    book.settle("chain.steps", steps, note="draft/config.json states no ttt_length")
