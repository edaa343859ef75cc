"""Embedding, head and vocabulary of EAGLE-3 heads (SafeAILab/EAGLE @ 148042c `cnets.py`, `Model`).

The head is the drafter's own and may score fewer ids than the target has. The embedding is a frozen copy of
the target's that many checkpoints leave out.
"""

from __future__ import annotations

from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import NUMBER, Keys
from truedraft.formats.axes import common
from truedraft.formats.axes.vocabulary import enter_vocabulary, stored_head, stored_table

_NO_TABLE = (
    "many checkpoints leave out the embedding, a copy of the target's, and there are no tensors to tell"
)


def read_eagle3_tables(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    """Enter all `embedding` and `head` axes that a chain has."""
    whole = book.rule(book.target.vocab_size, "no draft_vocab_size: the whole vocabulary")
    enter_vocabulary(book, keys, draft, whole)
    book.settle("embedding.source", [stored_table(draft, "embed_tokens.weight")], note=_NO_TABLE)
    _scale(book)
    head = stored_head(book, draft)
    book.settle("head.source", [head], book.rule("own", "lm_head over draft_vocab_size"))
    book.settle("head.softcap", [], book.rule(None, "logits are lm_head's"))
    book.settle("head.multiplier", keys.claims(NUMBER, "logit_scale"), book.rule(1.0, "no logit_scale"))
    if "target" in (book.value("embedding.source"), book.value("head.source")):
        common.check_borrowed_width(book)


def _scale(book: AxisBook) -> None:
    target = book.target
    if target.embedding_scale == 1.0:
        book.settle("embedding.scale", [], book.rule(1.0, "a plain nn.Embedding of the target's rows"))
        return
    note = (
        f"the target ({target.model_type}) scales its embeddings by {target.embedding_scale:.6g}, and no key "
        "says whether the drafter was trained with it"
    )
    book.settle("embedding.scale", [], note=note)
