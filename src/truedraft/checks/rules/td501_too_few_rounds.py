"""A measurement is too small to say anything.

What it finds
    Arms with fewer than 10 prompts or 200 rounds. As a note: a prompt file with fewer than 10 prompts.
Why it matters
    Rounds of one prompt resemble each other, so prompts count more than rounds. What separates a right wiring
    from a slightly wrong one is often below 5 %.
In acceptance
    Nothing. The figure is not wrong but could as well have been another: 65 rounds leave about ±0.4 on
    an acceptance length of 3.
Example
    `truedraft run` with one --prompt, whose acceptance length is then quoted.
Fix
    10 prompts and 200 rounds for a first look; some hundred prompts and 5 boots per arm for 3 %. In engines:
    a standard prompt set (MT-Bench, SPEED-Bench) rather than one request.
References
    vllm#38300 (S91: a short run became the baseline of a test), speculators#610, measurement notes section 3
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, rounds, where

CODE = "TD501"
NAME = "too-few-rounds"

PROMPTS, ROUNDS = 10, 200


def check(subject: Subject) -> Iterator[Finding]:
    """Prompts and rounds of each arm; prompts of the file."""
    for arm, records in arms(subject):
        prompts = {record.prompt_id for record in records}
        count = sum(n for _, _, n in rounds(records))
        named = prompts != {""}  # an engine's log tells no prompts apart
        if (named and len(prompts) < PROMPTS) or count < ROUNDS:
            found = f"{len(prompts)} prompts" if named else "prompts that the source does not name,"
            yield Finding(
                code=CODE,
                severity="warning",
                confidence="certain",
                message=f"{found} with {count} rounds are too few to say anything of acceptance",
                where=where(arm),
                found=f"{found.rstrip(',')}, {count} rounds",
                expected=f"at least {PROMPTS} prompts and {ROUNDS} rounds",
                fix="measure more prompts, rather than longer answers",
                references=("vllm#38300",),
            )
    if 0 < len(subject.prompts) < PROMPTS:
        yield Finding(
            code=CODE,
            severity="note",
            confidence="certain",
            message=f"{len(subject.prompts)} prompts are few for a measurement",
            where="prompts",
            found=len(subject.prompts),
            expected=f"at least {PROMPTS}",
            fix="use more prompts, one object per line of a .jsonl file",
        )
