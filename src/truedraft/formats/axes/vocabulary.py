"""Tables and vocabularies that a checkpoint may have or leave to the target."""

from __future__ import annotations

from truedraft.contract import PairError, Sourced, shape
from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, Keys
from truedraft.formats.axes.backbone import presence

_ROWS = ("lm_head.weight", "d2t", "markov_head.markov_w2.weight")
"""Tensors with one row per draft id."""


def stored_table(draft: Checkpoint, name: str) -> Sourced | None:
    """`own` or `target` by the presence of a table; `None` without weights."""
    seen = presence(draft, name, "fc.weight")
    return None if seen is None else Sourced("value", "own" if seen.value else "target", seen.source)


def stored_head(book: AxisBook, draft: Checkpoint) -> Sourced | None:
    """As `stored_table`, but `None` for a head of a reduced vocabulary that is missing.

    The target's head would not fit; the layout check then names the missing tensor.
    """
    seen = stored_table(draft, "lm_head.weight")
    vocabulary = book.value("head.vocabulary")
    reduced = vocabulary is not None and vocabulary != book.target.vocab_size
    return None if reduced and seen is not None and seen.value == "target" else seen


def enter_vocabulary(book: AxisBook, keys: Keys, draft: Checkpoint, default: Sourced | None) -> None:
    """Enter `head.vocabulary` and `head.vocabulary_map`; `default` where no key and no tensor says a size.

    Raises `PairError` if there are more draft ids than the target has.
    """
    claims = keys.claims(INTEGER, "draft_vocab_size")
    for name in _ROWS:
        found = draft.shape(name)
        if found and found[0]:
            claims.append(shape(found[0], draft.where_tensor(name)))
    note, size = "draft/config.json states no draft_vocab_size", book.target.vocab_size
    vocabulary = book.settle("head.vocabulary", claims, default, note=note)
    if isinstance(vocabulary.value, int) and vocabulary.value > size and vocabulary.source is not None:
        raise PairError(
            "vocabulary",
            vocabulary.source.where,
            f"a draft vocabulary of {vocabulary.value}",
            f"at most {size}, the target's ({book.target.where}/vocab_size)",
        )
    if "d2t" in draft.tensors or vocabulary.value not in (None, size):
        book.settle("head.vocabulary_map", [], book.rule("offset", "target id = i + d2t[i]"))
    elif vocabulary.value is not None:
        book.settle("head.vocabulary_map", [], book.rule("none", "no d2t for the whole vocabulary"))
    else:
        book.settle("head.vocabulary_map", [], note="head.vocabulary is unknown")
