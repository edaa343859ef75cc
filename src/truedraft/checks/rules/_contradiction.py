"""What the rules share that turn a contradiction between the files into a finding."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.contract import PairError

AXES = {
    "taps": "taps.layers",
    "vocabulary": "head.vocabulary",
    "width": "backbone.hidden_size",
    "mask": "block.mask_token_id",
    "block": "block.width",
    "layers": "backbone.layers",
    "window": "attention.window",
}
"""Topic of a `PairError` -> the axis that it is about, where there is one."""


def contradiction(
    subject: Subject, code: str, topics: frozenset[str], *, fix: str, references: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """The contradiction that keeps the pair from having a contract, if it is of one of the topics."""
    refusal = subject.pair.refusal
    if isinstance(refusal, PairError) and refusal.topic in topics:
        yield Finding(
            code=code,
            severity="error",
            confidence="certain",
            message=str(refusal),
            where=refusal.where,
            axis=refusal.axis or AXES.get(refusal.topic),
            found=refusal.found,
            expected=refusal.expected,
            fix=fix,
            references=references,
        )
