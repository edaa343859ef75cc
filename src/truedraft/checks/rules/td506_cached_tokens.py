"""Requests with and without cached tokens are pooled, or compared.

What it finds
    An arm with requests whose prompt came partly from the prefix cache beside requests that came from it not
    at all; or two arms of which one was warm and the other cold.
Why it matters
    In many releases cached tokens never pass the target, so the drafter's context rows for them are not
    written. The average of cold and warm requests hides that: it is merely mediocre.
In acceptance
    Cold 2.98, mostly cached 1.25; 1.70 over 16 million rounds together.
Example
    A replay of a chat log, where each request repeats the last one's prefix.
Fix
    Report cold and warm requests apart. Cold: vLLM `--no-enable-prefix-caching` or a `cache_salt` per
    request, SGLang `--disable-radix-cache`, llama.cpp `cache_prompt: false`.
References
    vllm#47930, vllm#47926 (F18), llama.cpp#27342 (S25), sglang#30393 (S29)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, pooled_tau, where

CODE = "TD506"
NAME = "cached-tokens"


def check(subject: Subject) -> Iterator[Finding]:
    """Warm beside cold requests within each arm, then between arms."""
    states: dict[str, bool] = {}
    for arm, records in arms(subject):
        warm = [record for record in records if record.cached_tokens]
        cold = [record for record in records if not record.cached_tokens]
        if not warm or not cold:
            states[arm] = bool(warm)
            continue
        yield _finding(
            f"{len(warm)} of {len(records)} requests had cached tokens: acceptance length "
            f"{pooled_tau(warm)} with, {pooled_tau(cold)} without",
            where(arm),
            sum(record.cached_tokens for record in warm),
        )
    if len(set(states.values())) > 1:
        warm_arms = ", ".join(repr(arm) for arm, warm in states.items() if warm)
        yield _finding(
            f"arms {warm_arms:.100} had cached tokens in every request, the others in none", "records", 0
        )


def _finding(message: str, place: str, tokens: int) -> Finding:
    return Finding(
        code=CODE,
        severity="warning",
        confidence="certain",
        message=message,
        where=place,
        found=f"{tokens} cached tokens" if tokens else "warm and cold arms",
        expected="all cold, or all warm",
        fix="turn the prefix cache off, or make cold and warm requests arms of their own",
        references=("vllm#47930",),
    )
