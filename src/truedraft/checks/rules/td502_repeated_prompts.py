"""Prompts are repeated, or differ in numbers and white space only.

What it finds
    Texts that occur twice in the prompt file once case, white space and (in long texts) numbers are left
    out. A warning above 5 % of the prompts, a note below. In records: the same output of the same prompt
    twice in one boot at temperature 0.
Why it matters
    A repeat hits the prefix cache, where some releases have no draft context; and it is no new information,
    so that intervals come out too narrow.
In acceptance
    Good on the first request and about 1.0 on its repeat where cached rows have no draft context; elsewhere
    unchanged.
Example
    A load test that sends one prompt 500 times.
Fix
    Distinct prompts. To measure repeats on purpose, give them an arm of their own, or turn the cache off
    (vLLM `--no-enable-prefix-caching`, SGLang `--disable-radix-cache`, llama.cpp `cache_prompt: false`).
References
    vllm#47930 (F18), vllm#33497 (S68), dynamo#12918
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, where
from truedraft.contract import COLDEST

CODE = "TD502"
NAME = "repeated-prompts"

FEW = 0.05
"""Share of repeats that public data sets may have."""

_LONG, _DIGITS = 200, 0.02


def check(subject: Subject) -> Iterator[Finding]:
    """Repeats among the prompts, and in each arm."""
    counts = Counter(_core(text) for text in subject.prompts)
    repeats = len(subject.prompts) - len(counts)
    if repeats:
        most, times = counts.most_common(1)[0]
        total = len(subject.prompts)
        message = f"{repeats} of {total} prompts repeat others, one {times} times: {most!r:.60}"
        yield _finding(message, "prompts", many=repeats / total > FEW, repeats=repeats)
    for arm, records in arms(subject):
        again = Counter(
            (record.boot, record.prompt_id, record.output_hash)
            for record in records
            if record.boot and record.output_hash
            if record.temperature is not None and record.temperature < COLDEST
        )
        repeats = sum(again.values()) - len(again)
        if repeats:
            message = f"{repeats} of {len(records)} requests repeat another of their boot, output and all"
            yield _finding(message, where(arm), many=repeats / len(records) > FEW, repeats=repeats)


def _finding(message: str, place: str, *, many: bool, repeats: int) -> Finding:
    return Finding(
        code=CODE,
        severity="warning" if many else "note",
        confidence="certain",
        message=message,
        where=place,
        found=repeats,
        expected=0,
        fix="use distinct prompts, or measure repeats as an arm of their own",
        references=("vllm#47930",),
    )


def _core(text: str) -> str:
    """The text without case and white space; without numbers where they are a counter and not the content."""
    core = " ".join(text.casefold().split())
    digits = sum(character.isdigit() for character in core)
    if len(core) >= _LONG and digits <= _DIGITS * len(core):
        core = re.sub(r"\d+", "0", core)
    return core
