"""Embedding, head and vocabulary of speculators drafters.

Reference: speculators 0.9.0 `model.py` `DraftVocabMixin`, and `_keys_to_ignore_on_save` of the models.
"""

from __future__ import annotations

from truedraft.contract import shape
from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import Keys
from truedraft.formats.axes import common
from truedraft.formats.axes.vocabulary import enter_vocabulary, stored_head, stored_table


def read_tables(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    """Enter all `embedding` and `head` axes but `head.softcap_order`.

    Checkpoints of block drafters leave out what is the target's: the embedding, and the head unless it scores
    a reduced vocabulary. Those of EAGLE-3 have both.
    """
    chain = book.family_name == "eagle3"
    whole = None
    if "fc.weight" in draft.tensors:
        whole = shape(book.target.vocab_size, f"{draft.where_tensor('fc.weight')}: no lm_head.weight")
    enter_vocabulary(book, keys, draft, whole)
    stored = book.rule("own", "always saved") if chain else book.rule("target", "never saved")
    book.settle("embedding.source", [stored_table(draft, "embed_tokens.weight")], stored)
    book.settle("embedding.scale", [], book.rule(1.0, "a plain nn.Embedding of the target's rows"))
    vocabulary = book.value("head.vocabulary")
    reduced = vocabulary is not None and vocabulary != book.target.vocab_size
    seen = stored_head(book, draft)
    if chain or vocabulary is not None:
        stored = book.rule("own" if chain or reduced else "target", "saved unless it is the target's")
        book.settle("head.source", [seen], stored)
    else:
        book.settle("head.source", [seen], note="head.vocabulary is unknown")
    book.settle("head.softcap", [], book.rule(None, "logits are lm_head's"))
    book.settle("head.multiplier", [], book.rule(1.0))
    if "target" in (book.value("embedding.source"), book.value("head.source")):
        common.check_borrowed_width(book)
