"""The drafter is asked to work beyond the context that it was made for.

What it finds
    The longest sequence served (`--context`) against `regime.context_length`, or, where that is unknown,
    against the drafter's max_position_embeddings. As notes: a drafter that states fewer positions than the
    target while nothing is asked, and contexts beyond the length at which published drafters were trained.
Why it matters
    The drafter's own attention and rotary table were never trained at these positions. The target is not
    affected, so the text stays right.
In acceptance
    Falls with context: 4.91 at 4k tokens, 3.61 at 16k for a drafter trained at 4k (6.05 after tuning on long
    texts); 73 % at 3k and 13 % at 11k where positions left the trained range.
Example
    --context 65536 for a drafter whose max_position_embeddings is 40960.
Fix
    Serve shorter contexts, measure acceptance by prompt length, or use a drafter trained on long texts; in
    vLLM `--max-model-len`, in SGLang `--context-length`, in llama.cpp `-c`.
References
    buun-llama-cpp#32 (F11), vLLM image issue AEON-7#6 (F17), DFlash paper A.1 (3072 and 4096 tokens),
    arXiv 2605.09329
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Confidence, Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.formats.regime_keys import longest_position

CODE = "TD304"
NAME = "context-length"

PUBLISHED = 4096
"""Longest training sequence of z-lab's papers and of DeepSpec; later drafters may have seen more."""


def check(subject: Subject) -> Iterator[Finding]:
    """The first of these that is known: the trained length, the drafter's positions, published practice."""
    contract, asked = subject.contract, subject.usage.context
    trained = None if contract is None else contract.get("regime.context_length")
    if contract is not None and trained is not None:
        source = contract.axes["regime.context_length"].source
        where = "draft/config.json" if source is None else source.where
        if asked is not None and asked > trained:
            yield _finding("warning", "likely", asked, trained, where, "the drafter was trained on at most")
        return
    stated = longest_position(subject.pair.draft)
    if stated is not None and asked is not None and asked > stated.value:
        yield _finding("warning", "likely", asked, stated.value, stated.where, "the drafter states at most")
    elif stated is not None and asked is None and stated.value < subject.pair.spec.max_positions:
        # Published configs carry odd values here, and attention with windows does not care.
        most = subject.pair.spec.max_positions
        yield Finding(
            code=CODE,
            severity="note",
            confidence="possible",
            message=f"the drafter states {stated.value} positions, the target {most}",
            where=stated.where,
            axis="regime.context_length",
            found=stated.value,
            expected=most,
            fix="say --context N, the longest sequence served",
        )
    elif asked is not None and asked > PUBLISHED and contract and contract.dialect in ("deepspec", "zlab"):
        text = "published drafters of this kind were trained on at most"
        yield _finding("note", "possible", asked, PUBLISHED, "draft/config.json", text)


def _finding(
    severity: Severity, confidence: Confidence, asked: int, most: int, where: str, text: str
) -> Finding:
    return Finding(
        code=CODE,
        severity=severity,
        confidence=confidence,
        message=f"contexts of {asked} tokens are served, but {text} {most}",
        where=where,
        axis="regime.context_length",
        found=asked,
        expected=most,
        fix="measure acceptance by prompt length; serve shorter contexts, or without drafts beyond",
        references=("buun-llama-cpp#32",),
    )
