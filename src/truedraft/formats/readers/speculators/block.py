"""What only DFlash and DSpark speculators have (speculators 0.9.0 `models/dflash`, `models/dspark`)."""

from __future__ import annotations

import re

from truedraft.contract import InputError, Sourced, inferred, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, TEXT, Keys
from truedraft.formats.axes.attention import LayerKinds
from truedraft.formats.axes.block import BlockClaims, enter_block, enter_slots, slot
from truedraft.formats.axes.sequence_heads import SequenceHeads
from truedraft.formats.readers.speculators.proposals import speculative_tokens
from truedraft.formats.readers.zlab import read_fusion

_FILL_IN_ONLY = "releases before 0.7.0 (PR 760) write no sample_from_anchor and train slot 0 for nothing"
_NO_CAUSAL_KEY = (
    "draft/config.json states no sliding_window_non_causal; the library always writes it, its default makes "
    "sliding layers causal, and vLLM takes an absent one as not causal"
)


def read_blocks(book: AxisBook, keys: Keys, draft: Checkpoint, kinds: LayerKinds) -> None:
    """Enter the `fusion`, `block`, `context`, `markov` and `confidence` axes, and `attention.causal`."""
    read_fusion(book)
    _block(book, keys)
    enter_slots(book, keys)
    _causal(book, keys, kinds)
    if book.family_name == "dspark":
        _check_heads(keys)
        SequenceHeads(keys, draft).enter(book)
        keys.ignore("markov_head_type")


def _block(book: AxisBook, keys: Keys) -> None:
    """`speculative_tokens` is γ; `block_size` is the trained width, and γ only where nothing states it."""
    widths, counts = keys.claims(INTEGER, "block_size"), speculative_tokens(keys)
    first = _first_slot(book, keys, widths, counts)
    # An override of the first slot answers a question that the files leave open about a block of this width,
    # or it contradicts a stated convention; then the width follows, as in an engine that reads them so.
    says = keys.claim("sample_from_anchor", BOOLEAN)
    settled = says is not None and _fits(widths, counts, bool(says.value))
    trained = slot(bool(says.value)) if settled and says else first.value
    spare = None if trained is None else int(trained == "unused")
    enter_block(book, BlockClaims(first, spare, not settled, widths, counts))


def _fits(widths: list[Sourced], counts: list[Sourced], sample_from_anchor: bool) -> bool:
    """Whether blocks of the stated width can yield the stated tokens."""
    most = max((integer(claim.value) for claim in counts), default=0)
    return all(most <= integer(claim.value) - (not sample_from_anchor) for claim in widths)


def _first_slot(book: AxisBook, keys: Keys, widths: list[Sourced], counts: list[Sourced]) -> Sourced:
    says = keys.claims(BOOLEAN, "sample_from_anchor")
    claims = [Sourced("value", slot(bool(claim.value)), claim.source) for claim in says]
    version = keys.get("speculators_version", TEXT)
    note = "draft/config.json states no sample_from_anchor, and engines' defaults disagree"
    if not claims and version is not None and _is_before_key(version):
        claims.append(book.rule("unused", _FILL_IN_ONLY))
    if not says and widths and len({c.value for c in counts}) == 1:
        size, count = integer(widths[0].value), integer(counts[0].value)
        reason = f"no sample_from_anchor; block_size is {size} and speculative_tokens {count}"
        if count in (size, size - 1):
            claims.append(inferred(slot(count == size), reason))
        else:
            note += f"; block_size {size} and speculative_tokens {count} do not tell"
    return book.settle("block.first_slot", claims, note=note)


def _is_before_key(version: str) -> bool:
    """Whether a release older than 0.7.0, or one of its nightlies, wrote the file."""
    found = re.match(r"0\.([0-9]{1,3})(?:\.([0-9]{1,3}))?(.*)", version)
    if found is None:
        return False
    minor, patch, rest = int(found[1]), int(found[2] or 0), found[3]
    return minor < 7 or (minor == 7 and patch == 0 and re.match(r"\.?(a|b|rc|dev)", rest) is not None)


def _causal(book: AxisBook, keys: Keys, kinds: LayerKinds) -> None:
    free = keys.claim("sliding_window_non_causal", BOOLEAN)
    if kinds.sliding is None:
        book.settle("attention.causal", [], note="nothing says which layers slide")
    elif not any(kinds.sliding):
        book.settle_each("attention.causal", fallback=book.rule(False, "full layers are bidirectional"))
    elif free is None or free.source is None:
        book.settle("attention.causal", [], note=_NO_CAUSAL_KEY)
    else:
        value = tuple(slides and not free.value for slides in kinds.sliding)
        book.settle("attention.causal", [stated(value, free.source.where)])


def _check_heads(keys: Keys) -> None:
    switches = ("enable_confidence_head", "confidence_head_with_markov")
    if keys.get("markov_rank", INTEGER) == 0 and all(keys.get(name, BOOLEAN) for name in switches):
        raise InputError(f"{keys.where(switches[1])}: found true beside markov_rank 0, expected false")
