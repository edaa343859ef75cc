"""Records of one arm were made in different ways.

What it finds
    An arm whose records differ in contract, K, engine, version, runner, sampling, proposal, verification,
    confidence threshold, tree budget or the way truncated rounds are counted; as a warning, in batch size.
Why it matters
    A figure pooled over them describes none of them. The rate falls when K rises although the drafter is the
    same; a temperature of 1 accepts less than greedy decoding.
In acceptance
    Anything: K = 5 and K = 7 on a block of 5 give 2.74 and 1.31, pooled about 2.
Example
    Two runs with --records appended to one file without renaming the arm.
Fix
    One arm per setting: set `arm` in each record, or keep one file per run.
References
    vllm#41834 (F14), TensorRT-LLM#9208 (S24, batch size), minefield#98 (rates across K)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._arms import arms, where
from truedraft.contract import AcceptanceRecord

CODE = "TD504"
NAME = "mixed-arm"

SETTINGS = (
    *("contract_hash", "K", "engine", "version", "runner", "temperature", "top_p", "top_k", "thinking"),
    *("proposal", "verification", "confidence_threshold", "tree_budget", "truncated"),
)


def check(subject: Subject) -> Iterator[Finding]:
    """One finding per arm with all settings that vary, another for the batch size."""
    for arm, records in arms(subject):
        varying = {name: values for name in SETTINGS if len(values := _values(records, name)) > 1}
        if varying:
            told = "; ".join(f"{name} {', '.join(values[:3])}" for name, values in varying.items())
            yield Finding(
                code=CODE,
                severity="error",
                confidence="certain",
                message=f"one arm mixes records of different {', '.join(varying)}",
                where=where(arm),
                found=f"{told:.200}",
                expected="one value each",
                fix="give each setting an arm of its own",
                references=("vllm#41834",),
            )
        sizes = _values(records, "batch_size")
        if len(sizes) > 1:
            yield Finding(
                code=CODE,
                severity="warning",
                confidence="certain",
                message="one arm mixes batch sizes, on which numerics and some faults depend",
                where=where(arm),
                found=", ".join(sizes[:5]),
                expected="one value",
                fix="hold the concurrency equal, or compare by batch size",
                references=("TensorRT-LLM#9208",),
            )


def _values(records: list[AcceptanceRecord], name: str) -> list[str]:
    """Distinct values in words; an empty text and `None` are values that their source did not know."""
    return sorted({str(getattr(record, name)) for record in records} - {"", "None"})
