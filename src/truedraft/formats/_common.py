"""Axes that all DFlash-like dialects read alike: taps, block, vocabulary, and what no file states."""

from __future__ import annotations

from truedraft.contract import InputError, Sourced
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._keys import BOOLEAN, INTEGER, INTEGERS, Keys

INERT = (
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "chunk_size_feed_forward",
    "dtype",
    "eos_token_id",
    "initializer_range",
    "max_position_embeddings",
    "max_window_layers",
    "model_type",
    "num_anchors",
    "num_target_layers",
    "pad_token_id",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "vocab_size",
)
"""Keys that change nothing about how a drafter runs, or that a reader checks elsewhere."""

MAX_WIDTH = 4096
"""Widest block that is believed; published ones have 7 to 16 rows."""

_REGIME = "no file of the checkpoint states it"


def read_taps(book: AxisBook, keys: Keys, *pointers: str, last_layer: Sourced | None = None) -> None:
    """Enter all `taps` axes from lists of 0-based layer ids (id k = output of layer k).

    `last_layer`: what is known of the state of a tap of the last layer, where the rule for the other layers
    does not reach. Raises `InputError` for repeated taps and taps outside the target, overridden or not.
    """
    target = book.target
    claims = keys.claims(INTEGERS, *pointers)
    remark = ""
    stated_layers = keys.get("num_target_layers", INTEGER)
    if stated_layers is not None and stated_layers != target.layers:
        remark = f"num_target_layers says {stated_layers}, the target has {target.layers}"
    taps = book.settle("taps.layers", claims, note=_default_taps_note(book), remark=remark)
    if isinstance(taps.value, tuple) and taps.source is not None:
        _check_taps([integer(k) for k in taps.value], taps.source.where, target.layers, remark)
    state = book.rule("residual", "residual stream after the layer")
    if last_layer is not None and target.layers - 1 in book.value_or("taps.layers", ()):
        state = last_layer
    book.settle_each("taps.state", fallback=state)
    book.settle("taps.basis", [], book.rule("plain"))


def _check_taps(taps: list[int], where: str, layers: int, remark: str) -> None:
    if not taps:
        raise InputError(f"{where}: found no taps, expected at least one")
    for tap in taps:
        if not -1 <= tap < layers:
            beyond = f"; {remark}" if remark else ""
            raise InputError(
                f"{where}: a tap beyond the target, found {tap}, expected -1 to {layers - 1}{beyond}"
            )
    if len(set(taps)) != len(taps):
        raise InputError(f"{where}: found repeated taps {taps}, expected distinct layers")


def _default_taps_note(book: AxisBook) -> str:
    note = "draft/config.json states no target_layer_ids"
    count, layers = book.value("backbone.layers"), book.target.layers
    if count and count > 1 and layers > 4:
        guess = [round(1 + i * (layers - 4) / (count - 1)) for i in range(count)]
        # z-lab/dflash issue 156: 14 of 20 published checkpoints differ from the formula.
        note += f"; z-lab's default formula gives {guess}, which is wrong for most published checkpoints"
    return note


def read_block(book: AxisBook, keys: Keys, rule: str, *widths: str) -> None:
    """Enter all `block` axes and `context.end`.

    `rule`: the family's `block.first_slot`. Whichever of width, proposals and first slot is overridden, the
    others follow: width = proposals, plus 1 if slot 0 is unused.
    """
    given = book.overrides
    says = keys.claims(BOOLEAN, "dflash_config/sample_from_anchor", "sample_from_anchor")
    slots = [Sourced("value", _slot(bool(claim.value)), claim.source) for claim in says]
    family = book.rule(rule)
    first = book.settle("block.first_slot", [*slots, family] if slots else [], family)
    unused = int(first.value == "unused")
    # Where the files contradict each other, block_size stays the width and an override settles the rest.
    contradictory = any(slot.value != rule for slot in slots)
    native = unused if contradictory else int(rule == "unused")
    width = book.settle(
        "block.width", keys.claims(INTEGER, *widths), note="draft/config.json states no block_size"
    )
    spare = unused if "block.width" in given else native
    base = None if width.value is None else max(integer(width.value) - spare, 0)
    proposals = book.settle(
        "block.proposals",
        [],
        book.rule(base, "width - 1" if spare else "width") if base else None,
        note="block.width is unknown or leaves none",
    )
    if "block.width" not in given and isinstance(proposals.value, int):
        if "block.proposals" in given:
            width = book.follow("block.width", proposals.value + unused, "block.proposals")
        elif native != unused:
            width = book.follow("block.width", proposals.value + unused, "block.first_slot")
    _check_block(width, proposals, unused)
    _mask(book, keys)
    book.settle("block.anchor_fill", [], book.rule("token", "slot 0 holds the anchor token"))
    book.settle("block.position_offset", [], book.rule(0, "slot j stands at position anchor + j"))
    book.settle("context.end", [], book.rule("before_anchor", "context rows are strictly before the anchor"))


def _slot(sample_from_anchor: bool) -> str:
    return "predicts_next" if sample_from_anchor else "unused"


def _check_block(width: Sourced, proposals: Sourced, unused: int) -> None:
    if not isinstance(width.value, int):
        return
    where = width.source.where if width.source else "block.width"
    if not 1 + unused <= width.value <= MAX_WIDTH:
        raise InputError(f"{where}: found width {width.value}, expected {1 + unused} to {MAX_WIDTH}")
    if isinstance(proposals.value, int) and proposals.value + unused > width.value:
        raise InputError(
            f"{where}: a width of {width.value} cannot yield {proposals.value} proposals, expected at "
            f"least {proposals.value + unused}"
        )


def _mask(book: AxisBook, keys: Keys) -> None:
    claims = keys.claims(INTEGER, "dflash_config/mask_token_id", "mask_token_id")
    mask = book.settle("block.mask_token_id", claims, note="draft/config.json states no mask_token_id")
    if isinstance(mask.value, int) and mask.value >= book.target.vocab_size and mask.source is not None:
        raise InputError(
            f"{mask.source.where}: found mask token id {mask.value}, expected a row of the target's "
            f"embedding table, 0 to {book.target.vocab_size - 1}"
        )


def check_vocabulary(book: AxisBook, keys: Keys, *pointers: str) -> None:
    """Raise `InputError` unless the drafter's stated vocabulary is the target's."""
    for claim in keys.claims(INTEGER, *pointers):
        if claim.value != book.target.vocab_size and claim.source is not None:
            raise InputError(
                f"{claim.source.where}: vocabulary mismatch, found {claim.value}, expected "
                f"{book.target.vocab_size} ({book.target.where}/vocab_size)"
            )


def check_borrowed_width(book: AxisBook) -> None:
    """Raise `InputError` unless a drafter that borrows the target's tables is as wide as the target."""
    hidden = book.state("backbone.hidden_size")
    if hidden.state == "value" and hidden.value != book.target.hidden_size and hidden.source is not None:
        raise InputError(
            f"{hidden.source.where}: found hidden size {hidden.value}, expected the target's "
            f"{book.target.hidden_size}, whose embedding and head this drafter borrows"
        )


def read_regime(book: AxisBook) -> None:
    """Enter the `regime` axes, which no known checkpoint states."""
    for name in ("context_length", "chat_template", "thinking", "target_dtype"):
        book.settle(f"regime.{name}", [], note=_REGIME)
