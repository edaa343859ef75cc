"""A table has another number of rows than its vocabulary has ids.

What it finds
    lm_head, d2t and the second Markov table against the draft vocabulary, embed_tokens and the first Markov
    table against the target's: one row per id. Where draft_vocab_size and a table disagree, TD101 says so.
Why it matters
    A row is an id. With another count every id after the first difference means another token, and engines
    pad, cut or replace the table rather than refuse.
In acceptance
    Collapse: the 32000-row head of a reduced vocabulary replaced by the target's took acceptance from 25 %
    to 1.7 %.
Example
    lm_head.weight [152064, 4096] for a target of 151936 ids: padded for tensor parallelism, or a drafter of
    another target.
Fix
    Cut padding rows off before saving, or take the drafter of this tokenizer.
    vLLM pads on its own, so a checkpoint need not; it takes draft_vocab_size for the rows of head and d2t.
    SGLang's block drafters take the target's head in place of it. llama.cpp: "wrong shape" at load.
References
    vllm-ascend#11374 (F05), vllm-ascend#15863 (S11), verl-SpeCo#66 (S10), pocketpal-ai#876 (S77)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._tensors import is_table, misshapen, shown

CODE = "TD204"
NAME = "vocabulary-rows"


def check(subject: Subject) -> Iterator[Finding]:
    """Rows of needed tables; a table whose rows are right and whose width is not is TD203's."""
    draft, contract = subject.pair.draft, subject.contract
    for name, wanted in misshapen(subject).items():
        found = draft.tensors[name].shape
        if contract is None or not is_table(name) or wanted[0] is None or found[:1] == wanted[:1]:
            continue
        rows = found[0] if found else 0
        of_target = name == "embed_tokens.weight" or name.endswith("markov_w1.weight")
        which = "the target" if of_target or wanted[0] == contract.target.vocab_size else "the drafter"
        other = "" if found[1:] == wanted[1:] else f" (shape {shown(found)}, expected {shown(wanted)})"
        yield Finding(
            code=CODE,
            severity="error",
            confidence="certain",
            message=f"{name} has {rows} rows, but {which} has {wanted[0]} ids{other}"
            + _guess(rows, wanted[0]),
            where=draft.where_tensor(name),
            axis=None if of_target else "head.vocabulary",
            found=rows,
            expected=wanted[0],
            fix="cut padding off before saving, or take the drafter of this target's tokenizer",
            references=("vllm-ascend#11374",),
        )


def _guess(rows: int, ids: int) -> str:
    if 0 < rows - ids < 1024 and rows % 64 == 0:
        return f": {rows - ids} more, perhaps padding to a multiple of 64"
    return ": a reduced vocabulary, or another tokenizer" if rows < ids else ": another tokenizer"
