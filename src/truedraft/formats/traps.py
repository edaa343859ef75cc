"""Keys that are legal to their producer and a trap for whoever loads the files.

Facts of the files that are no axis: what a config class drops, what a trainer ignored, which of two configs
a key stands in. Rules turn them into findings.
"""

from __future__ import annotations

from truedraft.contract import Contract
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, INTEGERS, NUMBER, TEXT, Keys
from truedraft.formats._nested import DECODER, NestedKeys, decoder_keys
from truedraft.formats.readers.deepseek_v4.keys import text_keys


def dropped_window(draft: Checkpoint, contract: Contract) -> str | None:
    """Where `use_sliding_window` should stand, if `Qwen3Config` drops a window that the contract has.

    transformers sets `sliding_window` to None unless `use_sliding_window` is true (`Qwen3Config.__init__`).
    Configs of other types, and speculators' loaders, which do not pass through that class, keep it.
    """
    keys = Keys(draft)
    through_class = keys.get("model_type", TEXT) == "qwen3" and DECODER not in draft.config
    uses = keys.get("use_sliding_window", BOOLEAN) is True
    forced = keys.get("dflash_config/swa_window_size", INTEGER) is not None
    slides = any(contract.tuple_of("attention.window"))
    return keys.where("use_sliding_window") if through_class and slides and not uses and not forced else None


def ignored_rotary_share(draft: Checkpoint, contract: Contract) -> tuple[str, float] | None:
    """A `partial_rotary_factor` below 1 that the trainer ignored: the contract rotates whole heads."""
    keys, head_dim = decoder_keys(draft), contract.get("backbone.head_dim")
    for pointer in ("rope_parameters/partial_rotary_factor", "partial_rotary_factor"):
        share = keys.get(pointer, NUMBER)
        whole = all(dims == head_dim for dims in contract.tuple_of("rope.rotary_dims"))
        if share is not None and 0 < share < 1 and whole and head_dim:
            return keys.where(pointer), float(share)
    return None


def multimodal_rope(draft: Checkpoint) -> str | None:
    """The key that gives a draft rope the sections of a multimodal one, though its positions are plain."""
    keys = decoder_keys(draft)
    for pointer in ("rope_parameters/mrope_section", "rope_scaling/mrope_section"):
        if keys.get(pointer, INTEGERS) is not None:
            return keys.where(pointer)
    return None


def foreign_stages(target: Checkpoint, draft: Checkpoint, contract: Contract) -> tuple[str, str] | None:
    """Where and how the target's config fails stages that come from another checkpoint.

    Engines read rope and window of a stage from the target's `compress_ratios`, at `num_hidden_layers` + i.
    """
    ids = [int(str(i)) for i in contract.tuple_of("stages.layers")]
    if not ids or target.directory == draft.directory:
        return None
    keys = text_keys(target)
    ratios = keys.get("compress_ratios", INTEGERS)
    where = keys.where("compress_ratios")
    if ratios is None:
        return where, "no compress_ratios at all"
    if len(ratios) <= max(ids):
        return where, f"{len(ratios)} entries for stages at {', '.join(map(str, ids))}"
    if any(ratios[i] for i in ids):
        return where, f"entries {[ratios[i] for i in ids]} for stages at {', '.join(map(str, ids))}"
    return None


def target_lacks(target: Checkpoint, draft: Checkpoint, contract: Contract, key: str) -> str | None:
    """Where `key` should stand in the target's config, if only the drafter's has it."""
    embedded = contract.axes["stages.layers"].state != "not_applicable"
    own, other = text_keys(draft).has(key), text_keys(target).has(key)
    return text_keys(target).where(key) if embedded and own and not other else None


def target_rope_base(target: Checkpoint) -> float | None:
    """The base of the target's rope, if it has one for all layers."""
    keys = Keys(target)
    outer = isinstance(target.config.get("text_config"), dict) and "rope_theta" not in target.config
    text = NestedKeys(target, keys, "text_config") if outer else keys
    for pointer in ("rope_parameters/rope_theta", "rope_theta"):
        theta = text.get(pointer, NUMBER)
        if theta is not None:
            return float(theta)
    return None
