"""Axes of a drafted block: width, proposals, first slot, what the slots embed, and where context ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from truedraft.contract import PairError, Sourced
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._keys import BOOLEAN, INTEGER, Keys

MAX_WIDTH = 4096
"""Widest block that is believed; published ones have 7 to 16 rows."""


@dataclass(frozen=True)
class BlockClaims:
    """What a checkpoint says of its blocks.

    `first`: the entered `block.first_slot`. `spare`: rows of the stated width that yield nothing, or `None`
    while the first slot does not say; `fixed`: the stated width stays if the first slot is overridden.
    `yields`: statements of the tokens per block; they count, unless one asks for more than the width yields.
    """

    first: Sourced
    spare: int | None
    fixed: bool
    widths: Sequence[Sourced] = ()
    yields: Sequence[Sourced] = ()


def read_block(book: AxisBook, keys: Keys, rule: str, *widths: str) -> None:
    """Enter all `block` axes and `context.end` of a family whose first slot is known.

    `rule`: the family's `block.first_slot`. Whichever of width, proposals and first slot is overridden, the
    others follow: width = proposals, plus 1 if slot 0 is unused.
    """
    says = keys.claims(BOOLEAN, "dflash_config/sample_from_anchor", "sample_from_anchor")
    slots = [Sourced("value", slot(bool(claim.value)), claim.source) for claim in says]
    family = book.rule(rule)
    first = book.settle("block.first_slot", [*slots, family] if slots else [], family)
    # Where the files contradict each other, block_size stays the width and an override settles the rest.
    contradictory = any(claim.value != rule for claim in slots)
    spare = int((first.value if contradictory else rule) == "unused")
    enter_block(book, BlockClaims(first, spare, contradictory, keys.claims(INTEGER, *widths)))
    enter_slots(book, keys)


def slot(sample_from_anchor: bool) -> str:
    """`block.first_slot` from the key that speculators and z-lab share."""
    return "predicts_next" if sample_from_anchor else "unused"


def enter_block(book: AxisBook, block: BlockClaims) -> None:
    """Enter `block.width` and `block.proposals`, which follow each other's overrides."""
    given = book.overrides
    unused = None if block.first.value is None else int(block.first.value == "unused")
    spare = unused if "block.width" in given else block.spare
    width = book.settle("block.width", block.widths, note="draft/config.json states no block_size")
    trained = None
    if width.value is not None and spare is not None and integer(width.value) > spare:
        trained = book.rule(integer(width.value) - spare, "width - 1" if spare else "width")
    most = None if trained is None else integer(trained.value)
    beyond = [claim for claim in block.yields if most is not None and integer(claim.value) > most]
    spared = most is not None and any(integer(claim.value) < most for claim in block.yields)
    proposals = book.settle(
        "block.proposals",
        [trained, *block.yields] if beyond else block.yields,
        trained,
        note="block.width or block.first_slot is unknown, or leaves none",
        remark=f"a block as trained yields {most}" if spared else "",
    )
    if "block.width" not in given and isinstance(proposals.value, int) and unused is not None:
        if "block.proposals" in given or not block.widths:
            width = book.follow("block.width", proposals.value + unused, "block.proposals")
        elif not block.fixed and spare != unused:
            rows = integer(width.value) - (spare or 0) + unused
            width = book.follow("block.width", rows, "block.first_slot")
    _check(width, proposals, unused or 0)


def _check(width: Sourced, proposals: Sourced, unused: int) -> None:
    if not isinstance(width.value, int):
        return
    where = width.source.where if width.source else "block.width"
    if not 1 + unused <= width.value <= MAX_WIDTH:
        raise PairError("block", where, f"width {width.value}", f"{1 + unused} to {MAX_WIDTH}")
    if isinstance(proposals.value, int) and proposals.value + unused > width.value:
        raise PairError(
            "block",
            where,
            f"a width of {width.value} for {proposals.value} proposals",
            f"at least {proposals.value + unused}",
        )


def enter_slots(
    book: AxisBook, keys: Keys, masks: tuple[str, ...] = ("dflash_config/mask_token_id", "mask_token_id")
) -> None:
    """Enter what all DFlash-like families share: the mask token, the anchor's slot, and the context's end.

    `masks`: pointers of the keys that state the mask token.
    """
    claims = keys.claims(INTEGER, *masks)
    mask = book.settle("block.mask_token_id", claims, note=f"draft/config.json states no {masks[-1]}")
    if isinstance(mask.value, int) and mask.value >= book.target.vocab_size and mask.source is not None:
        raise PairError(
            "mask",
            mask.source.where,
            f"mask token id {mask.value}",
            f"a row of the target's embedding table, 0 to {book.target.vocab_size - 1}",
        )
    book.settle("block.anchor_fill", [], book.rule("token", "slot 0 holds the anchor token"))
    book.settle("block.position_offset", [], book.rule(0, "slot j stands at position anchor + j"))
    book.settle("context.end", [], book.rule("before_anchor", "context rows are strictly before the anchor"))
