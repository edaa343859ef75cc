"""An engine is asked for more drafts than the drafter was trained to make.

What it finds
    K (`--k`) above the tokens that one trained block yields. Fewer are allowed: a prefix of the block is
    verified.
Why it matters
    Slots beyond the trained block were never trained, and the wider block changes all the others.
In acceptance
    K = 7 on a block of 5: 1.31 with exact zeros at the end, against 2.74 with K = 5. Chains of one step may
    go deeper.
Example
    --k 7 for DeepSeek-V4-Flash-DSpark (dspark_block_size 5), as its model card recommends.
Fix
    K = the contract's `block.proposals`.
References
    vllm#41834 and its comments, DFlash paper table 8, founding report (F14, S15 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._where import place

CODE = "TD423"
NAME = "too-many-drafts"


def check(subject: Subject) -> Iterator[Finding]:
    """K against `block.proposals`."""
    contract, k = subject.contract, subject.usage.speculative_tokens
    most = None if contract is None else contract.get("block.proposals")
    if contract is None or k is None or most is None or k <= most:
        return
    yield Finding(
        code=CODE,
        severity="error",
        confidence="likely",
        message=f"{k} drafts per round are asked for, but a trained block yields {most}",
        where=place(contract.axes["block.proposals"]),
        axis="block.proposals",
        found=k,
        expected=most,
        fix=f"ask for {most} (vLLM num_speculative_tokens; SGLang counts the bonus slot too)",
        references=("vllm#41834",),
    )
