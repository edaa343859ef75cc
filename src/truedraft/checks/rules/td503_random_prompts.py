"""Prompts look like random tokens, or like one text repeated.

What it finds
    If at least half of the prompts that are long enough (100 words, 300 letters or 64 token ids) show it:
    token ids that are evenly spread or consecutive, random letters, words of many scripts in disorder, words
    that never repeat, a few words over and over.
Why it matters
    What a target writes after random tokens is no text that the drafter was trained on. Load generators send
    such prompts by default, and say so nowhere.
In acceptance
    1.46 at K = 5, with a normal first position; but 4.4 to 4.7 of 5 on another engine, where the target fell
    into a loop. Throughput comes out about 23 % too high (SPEED-Bench).
Example
    `vllm bench serve --dataset-name random`.
Fix
    Real prompts (SPEED-Bench, MT-Bench) and no ignore_eos: vLLM `--dataset-name hf` or `custom`, SGLang
    `--dataset-name sharegpt`.
References
    vllm#51009 (F29), vllm#42505 (S03), vllm#33497 (S68), arXiv 2604.09557
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._random_text import sign_of_randomness

CODE = "TD503"
NAME = "random-prompts"


def check(subject: Subject) -> Iterator[Finding]:
    """The commonest sign, if it or others show in half of the prompts."""
    signs = [sign_of_randomness(text) for text in subject.prompts]
    shown = Counter(sign for sign in signs if sign)
    if not shown or shown.total() < len(signs) / 2:
        return
    sign = shown.most_common(1)[0][0]
    example = subject.prompts[signs.index(sign)]
    yield Finding(
        code=CODE,
        severity="warning",
        confidence="likely",
        message=f"{shown.total()} of {len(signs)} prompts look synthetic ({sign}): {example.strip()!r:.60}",
        where="prompts",
        found=sign,
        expected="text like that which will be served",
        fix="measure on real prompts",
        references=("vllm#51009", "vllm#42505"),
    )
