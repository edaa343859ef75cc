"""The Markov and confidence heads that DSpark drafters of all dialects share."""

from __future__ import annotations

from truedraft.contract import InputError, Sourced, shape, stated
from truedraft.formats._book import AxisBook, integer
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import BOOLEAN, INTEGER, TEXT, Keys
from truedraft.formats.axes.backbone import presence

KINDS = ("vanilla", "gated", "rnn")
_MARKS = {
    "gated": "markov_head.gate_proj.weight",
    "rnn": "markov_head.joint_proj.weight",
    "vanilla": "markov_head.markov_w1.weight",
}
_CONFIDENCE = ("confidence_head.proj.weight", "confidence_head.proj.bias")


class SequenceHeads:
    """What a checkpoint's keys and tensors say of its two heads."""

    def __init__(self, keys: Keys, draft: Checkpoint) -> None:
        self._keys = keys
        self._draft = draft
        self._rank = self._ranks()
        self._kind = self._kinds()
        weight = _CONFIDENCE[0]
        seen = presence(draft, weight, "fc.weight")
        self._confident = [*keys.claims(BOOLEAN, "enable_confidence_head"), *([seen] if seen else [])]

    @property
    def absent(self) -> bool:
        """Whether everything says that there is neither head."""
        return _all(self._rank, 0) and _all(self._confident, False)

    def enter(self, book: AxisBook) -> None:
        """Enter all `markov` and `confidence` axes and `head.softcap_order`."""
        book.settle("head.softcap_order", [], book.rule("before_sequence_head"))
        self._markov(book)
        self._confidence(book)
        self._keys.ignore("confidence_head_with_markov")

    def _ranks(self) -> list[Sourced]:
        claims = self._keys.claims(INTEGER, "markov_rank")
        name = "markov_head.markov_w1.weight"
        found = self._draft.shape(name)
        if found is not None and len(found) == 2:
            claims.append(shape(found[1], self._draft.where_tensor(name)))
        for claim in claims:
            if integer(claim.value) < 0:
                where = self._keys.where("markov_rank")
                raise InputError(f"{where}: found {claim.value}, expected a number >= 0")
        return claims

    def _kinds(self) -> list[Sourced]:
        claims = self._keys.claims(TEXT, "markov_head_type")
        for claim in claims:
            if claim.value not in KINDS:
                where = self._keys.where("markov_head_type")
                raise InputError(f"{where}: found {claim.value!r:.80}, expected one of {', '.join(KINDS)}")
        draft = self._draft
        seen = (shape(k, draft.where_tensor(n)) for k, n in _MARKS.items() if n in draft.tensors)
        return [*claims, *list(seen)[:1]]

    def _markov(self, book: AxisBook) -> None:
        if _all(self._rank, 0):
            source = self._rank[0].source
            book.settle("markov.kind", [stated("none", source.where)] if source else [])
            for name in ("markov.rank", "markov.previous"):
                book.skip(name, note="a drafter without a Markov head (markov_rank 0)")
            return
        book.settle("markov.kind", self._kind, note="no markov_head_type, and no tensor settles it")
        book.settle("markov.rank", self._rank, note="no markov_rank, and no tensor settles it")
        book.settle("markov.previous", [], book.rule("previous_token", "the token before the predicted one"))

    def _confidence(self, book: AxisBook) -> None:
        if _all(self._confident, True):
            # That there is a head is stated; what it reads is the producer's rule.
            claims = [book.rule("post_norm", "the head reads the final norm's output")]
        else:
            found = self._confident
            claims = [Sourced("value", "post_norm" if c.value else "none", c.source) for c in found]
        note = "no enable_confidence_head, and no tensor settles it"
        if book.settle("confidence.input", claims, note=note).value == "none":
            for name in ("confidence.bias", "confidence.with_markov"):
                book.skip(name, note="a drafter without a confidence head")
            return
        weight, bias = _CONFIDENCE
        book.settle("confidence.bias", [presence(self._draft, bias, weight)], book.rule(True))
        with_markov = self._keys.claims(BOOLEAN, "confidence_head_with_markov")
        hidden, rank = book.value("backbone.hidden_size"), book.value("markov.rank")
        width = (self._draft.shape(weight) or (0,))[-1:]
        if hidden and rank and width in ((hidden,), (hidden + rank,)):
            with_markov.append(shape(width != (hidden,), self._draft.where_tensor(weight)))
        book.settle("confidence.with_markov", with_markov, note="no confidence_head_with_markov")


def _all(claims: list[Sourced], value: object) -> bool:
    return bool(claims) and all(claim.value == value for claim in claims)
