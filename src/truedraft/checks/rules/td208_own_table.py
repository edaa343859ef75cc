"""A head or an embedding is in the files where it should be borrowed, or differs from what it is called.

What it finds
    An own lm_head or embed_tokens in a checkpoint whose producer borrows both from the target;
    tie_word_embeddings true beside an own head that cannot be the embedding; a borrowed head beside a reduced
    vocabulary. With --weights also how own tables compare with the target's: a copy, or all different
    (notes).
Why it matters
    Engines decide by their own rules which table is used, so one and the same checkpoint runs with two
    different heads. The one that was trained is known only to the trainer.
In acceptance
    A head that was overwritten by the target's, or left random though it was tied: 1.02 instead of 3.6,
    1.7 % instead of 25 %. Nothing where the table is a copy.
Example
    A z-lab DFlash checkpoint with lm_head.weight [32000, 4096].
Fix
    Remove tables that are copies; where they were trained, say so in a format that has them (speculators).
    vLLM keeps an own table unless it equals the target's ("Keeping separate …" in the log, per rank) and
    ignores tie_word_embeddings of drafts. SGLang's block drafters, and the embedding of its EAGLE-3, always
    take the target's. llama.cpp's converter drops lm_head of a whole vocabulary.
References
    SpecForge#455, SpecForge#473 (S59), vllm-ascend#11374 (F05), vllm#28549, vllm#27737 (S09), vllm#50158
    (F07 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tables import compare_with_target
from truedraft.checks.rules._tensors import shown
from truedraft.contract import Contract
from truedraft.formats.stage_layout import is_staged

CODE = "TD208"
NAME = "own-table"

_TABLES = {"embedding.source": "embed_tokens.weight", "head.source": "lm_head.weight"}


def check(subject: Subject) -> Iterator[Finding]:
    """Each table against the contract's source of it, against the tie, and against the target's values."""
    contract, draft = subject.contract, subject.pair.draft
    if contract is None or is_staged(contract):
        return  # a drafter inside the target's checkpoint: its tables are the target's
    for axis, name in _TABLES.items():
        if name in draft.tensors:
            share = compare_with_target(subject, name) if subject.weights else None
            yield from _table(subject, contract, axis, name, share)
    yield from _tie(subject, contract)
    size, whole = contract.get("head.vocabulary"), contract.target.vocab_size
    if draft.tensors and contract.get("head.source") == "target" and size not in (None, whole):
        told = f"the head is the target's with {whole} rows, but the draft vocabulary has {size} ids"
        fix = "save the drafter's own head"
        yield _finding(subject, "error", told, "draft/config.json", "head.source", fix)


def _table(
    subject: Subject, contract: Contract, axis: str, name: str, share: float | None
) -> Iterator[Finding]:
    """`share`: of the rows that equal the target's; `None` if that is not known."""
    where = subject.pair.draft.where_tensor(name)
    source = contract.axes[axis].source
    if contract.get(axis) == "target" and source is not None and source.kind == "override":
        return  # the user's own choice
    if contract.get(axis) == "target":
        copy = share == 1.0
        shape = shown(subject.pair.draft.tensors[name].shape)
        told = f"{name} {shape} is in the files, but {contract.dialect} drafters borrow the target's"
        if share is not None:
            told += ": a copy of it" if copy else f", from which {1 - share:.0%} of its rows differ"
        fix = "remove the tensor if it is a copy of the target's; it was not trained by this producer's code"
        yield _finding(subject, "note" if copy else "warning", told, where, axis, fix)
    elif share == 1.0:
        told = f"{name} is a copy of the target's, row by row: a harmless duplicate"
        yield _finding(subject, "note", told, where, axis)
    elif share == 0.0:
        told = (
            f"{name} differs from the target's in every row that was compared: trained, or of another target"
        )
        yield _finding(subject, "note", told, where, axis)


def _tie(subject: Subject, contract: Contract) -> Iterator[Finding]:
    """The drafter's own key only: `transformer_layer_config` of speculators is a copy of the target's."""
    draft = subject.pair.draft
    head, embedding = draft.shape("lm_head.weight"), draft.shape("embed_tokens.weight")
    rows = embedding or (contract.target.vocab_size, contract.target.hidden_size)
    tied = draft.config.get("tie_word_embeddings") is True and contract.get("head.source") == "own"
    if tied and head not in (None, rows):
        told = (
            f"tie_word_embeddings is true, but lm_head.weight {shown(head or ())} is no embedding "
            f"{shown(rows)}: a loader that ties them loses the head"
        )
        where, fix = draft.where("/tie_word_embeddings"), "set tie_word_embeddings to false"
        yield _finding(subject, "warning", told, where, "head.source", fix)


def _finding(
    subject: Subject, severity: Severity, message: str, where: str, axis: str, fix: str = ""
) -> Finding:
    return Finding(
        code=CODE,
        severity=severity,
        confidence="certain" if subject.weights else "likely",
        message=message,
        where=where,
        axis=axis,
        fix=fix,
        references=() if severity == "note" else ("SpecForge#473", "vllm-ascend#11374", "vllm#28549"),
    )
