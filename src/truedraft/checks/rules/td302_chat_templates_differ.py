"""The drafter's files hold another chat template than the target's.

What it finds
    If both ship one: chat templates that differ in more than white space.
Why it matters
    The template of the drafter's repository is most likely that of its training prompts. The drafter sees it
    as features of every prompt: roles, system prompt, and whether an empty thinking block precedes answers.
In acceptance
    Two tools that differed in the template alone: 25 % and 60 % of drafts accepted (thinking block).
Example
    A target whose template was revised after the drafter was trained.
Fix
    Measure with the template of the drafter's files: `--chat-template FILE` in vLLM and SGLang,
    `--chat-template-file` in llama.cpp. If nothing changes, keep the target's.
References
    z-lab/dflash#133 (F28), vllm#42508 (S69)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.tokenizer_files import chat_template

CODE = "TD302"
NAME = "chat-templates-differ"


def check(subject: Subject) -> Iterator[Finding]:
    """Both templates, line by line, without white space at the ends."""
    target, draft = chat_template(subject.pair.target), chat_template(subject.pair.draft)
    if target is None or draft is None:
        return
    difference = _first_difference(target.text, draft.text)
    if difference is None:
        return
    number, theirs, ours = difference
    yield Finding(
        code=CODE,
        severity="warning",
        confidence="possible",
        message=f"the chat templates of drafter and target differ, first at line {number}",
        where=draft.where,
        axis="regime.chat_template",
        found=f"{ours:.80}",
        expected=f"{theirs:.80}",
        fix="measure once with the drafter's template (vLLM, SGLang: --chat-template)",
        references=("z-lab/dflash#133",),
    )


def _first_difference(target: str, draft: str) -> tuple[int, str, str] | None:
    pairs = zip_longest(_lines(target), _lines(draft), fillvalue="")
    return next(((n, a, b) for n, (a, b) in enumerate(pairs, start=1) if a != b), None)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
