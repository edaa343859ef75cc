"""What only EAGLE-3 speculators have (speculators 0.9.0 `models/eagle3`)."""

from __future__ import annotations

from truedraft.contract import PairError, Sourced
from truedraft.formats._book import AxisBook
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, Keys
from truedraft.formats.axes.backbone import presence
from truedraft.formats.readers.speculators.proposals import speculative_tokens

_NO_RESIDUAL_KEY = (
    "draft/config.json states no norm_before_residual; the library always writes it, its default is false, "
    "and vLLM takes an absent one as true"
)


def read_chain(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    """Enter all `fusion` and `chain` axes of an EAGLE-3 drafter."""
    _fusion(book, keys, draft)
    book.settle("chain.token", [], book.rule("next", "data.py shift_batch pairs token t+1 with feature t"))
    book.settle("chain.position_offset", [], book.rule(1, "data.py shift_batch: positions start at 1"))
    residual = keys.claims(BOOLEAN, "norm_before_residual")
    book.settle("chain.norm_before_residual", residual, note=_NO_RESIDUAL_KEY)
    output = keys.claims(BOOLEAN, "norm_output")
    feedback = [Sourced("value", "post_norm" if c.value else "residual", c.source) for c in output]
    book.settle("chain.feedback", feedback, book.rule("residual", "no norm_output: before EAGLE 3.1"))
    book.settle(
        "chain.steps", speculative_tokens(keys), note="draft/config.json states no speculative_tokens"
    )


def _fusion(book: AxisBook, keys: Keys, draft: Checkpoint) -> None:
    if keys.get("norm_before_fc", BOOLEAN) and keys.get("fc_norm", BOOLEAN):
        raise PairError("norm", keys.where("fc_norm"), "true beside norm_before_fc", "one of the two")
    for axis, key, tensor in (
        ("tap_norm", "fc_norm", "fc_norm.0.weight"),
        ("concat_norm", "norm_before_fc", "input_norm.weight"),
    ):
        claims = [keys.claim(key, BOOLEAN), presence(draft, tensor, "fc.weight")]
        book.settle(f"fusion.{axis}", claims, book.rule(False, f"no {key}: releases before that option"))
    book.settle("fusion.fc", [], book.rule(True))
    book.settle("fusion.output_norm", [], book.rule(False, "hidden_norm belongs to the first layer"))
