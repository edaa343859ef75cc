"""Sampled requests were verified as if they were greedy, or cannot be repeated.

What it finds
    Records with a temperature above 0 and `verification` greedy. As a note: sampled records without a seed,
    and a temperature other than the one that will be served (`--temperature`).
Why it matters
    Greedy verification keeps a draft if it is the target's most likely token: the output no longer has the
    target's law, and acceptance is that of temperature 0. (Accepting a draft that equals the target's sample
    is lossless; it is called exact_match here.)
In acceptance
    Too high: it is what greedy decoding reaches, not what sampling would.
Example
    "temperature": 1.0, "verification": "greedy".
Fix
    `standard` verification (vLLM `rejection_sample_method`), and record what the engine does: a record that
    says nothing counts as greedy.
References
    vllm-ascend#7807 (F27), z-lab/dflash#74 (S54), DeepSpec#31 (S51), note N1 of the field log
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, where
from truedraft.contract import COLDEST

CODE = "TD510"
NAME = "sampled-verification"


def check(subject: Subject) -> Iterator[Finding]:
    """Temperature against verification, seed and what is served."""
    served = subject.usage.temperature
    for arm, records in arms(subject):
        sampled = [record for record in records if (record.temperature or 0.0) >= COLDEST]
        greedy = sum(record.verification == "greedy" for record in sampled)
        if greedy:
            message = f"{greedy} sampled requests were verified greedily, which changes the output's law"
            yield _finding(arm, message, "warning", "greedy", "standard, block or exact_match")
        seedless = sum(record.seed is None for record in sampled)
        if seedless:
            message = f"{seedless} sampled requests name no seed and cannot be repeated"
            yield _finding(arm, message, "note", "no seed", "a seed")
        other = {record.temperature for record in records if record.temperature is not None}
        if served is not None and other and served not in other:
            message = f"measured at temperature {min(other):g}, but {served:g} is served"
            yield _finding(arm, message, "note", min(other), served)


def _finding(
    arm: str, message: str, severity: Severity, found: str | float, expected: str | float
) -> Finding:
    return Finding(
        code=CODE,
        severity=severity,
        confidence="certain" if severity == "note" else "possible",
        message=message,
        where=where(arm),
        found=found,
        expected=expected,
        fix="verify sampled output with its own law, and record how",
        references=("vllm-ascend#7807",) if severity == "warning" else (),
    )
