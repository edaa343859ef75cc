"""Axes that all dialects read alike: taps, vocabulary, and what no file states."""

from __future__ import annotations

from truedraft.contract import PairError, Sourced
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._keys import INTEGER, INTEGERS, Keys

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

ENTRIES = "eagle_aux_hidden_state_layer_ids"
"""Entries of layers: the output of the layer before."""

_REGIME = "no file of the checkpoint states it"


def read_taps(book: AxisBook, keys: Keys, *pointers: str, last_layer: Sourced | None = None) -> None:
    """Enter all `taps` axes from lists of 0-based layer ids (id k = output of layer k).

    `ENTRIES` may stand beside them for vLLM, which takes its ids as they are.
    """
    remark = ""
    stated_layers = keys.get("num_target_layers", INTEGER)
    if stated_layers is not None and stated_layers != book.target.layers:
        remark = f"num_target_layers says {stated_layers}, the target has {book.target.layers}"
    claims = keys.claims(INTEGERS, *pointers)
    entries = keys.claim(ENTRIES, INTEGERS)
    if entries is not None and isinstance(entries.value, tuple):
        taps = tuple(integer(n) - 1 for n in entries.value)
        claims.append(Sourced("value", taps, entries.source))
    enter_taps(book, claims, note=_default_taps_note(book), remark=remark, last_layer=last_layer)


def enter_taps(
    book: AxisBook,
    claims: list[Sourced],
    default: Sourced | None = None,
    *,
    note: str,
    remark: str = "",
    last_layer: Sourced | None = None,
) -> None:
    """Enter all `taps` axes.

    `default`: the producer's taps where no file states any. `last_layer`: what is known of the state of a tap
    of the last layer, where the rule for the other layers does not reach. Raises `PairError` for repeated
    taps and taps outside the target, overridden or not.
    """
    layers = book.target.layers
    taps = book.settle("taps.layers", claims, default, note=note, remark=remark)
    if isinstance(taps.value, tuple) and taps.source is not None:
        check_taps([integer(k) for k in taps.value], taps.source.where, range(-1, layers), remark)
    state = book.rule("residual", "residual stream after the layer")
    if last_layer is not None and layers - 1 in book.value_or("taps.layers", ()):
        state = last_layer
    book.settle_each("taps.state", fallback=state)
    book.settle("taps.basis", [], book.rule("plain"))


def check_taps(taps: list[int], where: str, allowed: range, remark: str = "") -> None:
    """Raise `PairError` unless the taps are distinct ids of the allowed range, and at least one."""
    if not taps:
        raise PairError("taps", where, "no taps", "at least one")
    for tap in taps:
        if tap not in allowed:
            span = f"{allowed[0]} to {allowed[-1]}" + (f"; {remark}" if remark else "")
            raise PairError("taps", where, str(tap), span, "a tap beyond the target")
    if len(set(taps)) != len(taps):
        raise PairError("taps", where, f"repeated taps {taps}", "distinct layers")


def _default_taps_note(book: AxisBook) -> str:
    note = "draft/config.json states no target_layer_ids"
    count, layers = book.value("backbone.layers"), book.target.layers
    if count and count > 1 and layers > 4:
        guess = [round(1 + i * (layers - 4) / (count - 1)) for i in range(count)]
        # z-lab/dflash issue 156: 14 of 20 published checkpoints differ from the formula.
        note += f"; z-lab's default formula gives {guess}, which is wrong for most published checkpoints"
    return note


def check_vocabulary(book: AxisBook, keys: Keys, *pointers: str) -> None:
    """Raise `PairError` unless the drafter's stated vocabulary is the target's."""
    for claim in keys.claims(INTEGER, *pointers):
        if claim.value != book.target.vocab_size and claim.source is not None:
            expected = f"{book.target.vocab_size} ({book.target.where}/vocab_size)"
            where, found = claim.source.where, str(claim.value)
            raise PairError("vocabulary", where, found, expected, "vocabulary mismatch")


def enter_full_vocabulary(book: AxisBook) -> None:
    """Enter that the head scores the target's whole vocabulary."""
    book.settle("head.vocabulary_map", [], book.rule("none"))
    book.settle("head.vocabulary", [], book.rule(book.target.vocab_size, "the target's vocabulary"))


def check_borrowed_width(book: AxisBook) -> None:
    """Raise `PairError` unless a drafter that borrows the target's tables is as wide as the target."""
    hidden = book.state("backbone.hidden_size")
    if hidden.state == "value" and hidden.value != book.target.hidden_size and hidden.source is not None:
        raise PairError(
            "width",
            hidden.source.where,
            f"hidden size {hidden.value}",
            f"the target's {book.target.hidden_size}, whose embedding and head this drafter borrows",
        )


def check_target_width(book: AxisBook, keys: Keys) -> None:
    """Raise `PairError` unless a stated `target_hidden_size` is the target's."""
    width = keys.get("target_hidden_size", INTEGER)
    if width is not None and width != book.target.hidden_size:
        expected = f"{book.target.hidden_size} ({book.target.where}/hidden_size)"
        raise PairError("width", keys.where("target_hidden_size"), str(width), expected)


def read_regime(book: AxisBook) -> None:
    """Enter the `regime` axes, which no known checkpoint states."""
    for name in ("context_length", "chat_template", "thinking", "target_dtype"):
        book.settle(f"regime.{name}", [], note=_REGIME)
