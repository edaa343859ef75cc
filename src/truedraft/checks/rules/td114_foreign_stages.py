"""Stages of one checkpoint on the target of another: the target's config does not cover them.

What it finds
    A drafter inside a checkpoint (DeepSeek-V4 mtp.*) whose target directory is another one: compress_ratios
    without entries for the stages, or other ones, or dspark_* keys that only the drafter's config has.
Why it matters
    Engines address stages at num_hidden_layers + i and build them from the TARGET's config. The fork of the
    founding reports looked rope and block size up there; upstream vLLM takes rope base and window from it.
In acceptance
    YaRN on stages that never saw it; a block size of 0; both with correct text.
Example
    43 layers, 44 compress_ratios in the target, 46 in the drafter: stages 44 and 45 fall off the end.
Fix
    Give the target's config the drafter's compress_ratios and dspark_* keys, or serve the whole checkpoint.
References
    the founding reports on draft rope and block size; vllm#48304
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.traps import foreign_stages, target_lacks

CODE = "TD114"
NAME = "foreign-stages"


def check(subject: Subject) -> Iterator[Finding]:
    """Stages that the target's config does not describe."""
    contract, pair = subject.contract, subject.pair
    if contract is None:
        return
    if (found := foreign_stages(pair.target, pair.draft, contract)) is not None:
        yield Finding(
            code=CODE,
            severity="note",
            confidence="certain",
            message=f"the target's config has {found[1]}; the founding fork looks a stage's rope up there",
            where=found[0],
            axis="rope.scaling",
            found=found[1],
            expected="0 at each stage",
            fix="copy the drafter's compress_ratios into the target's config",
            references=("vllm#48304",),
        )
    where = target_lacks(pair.target, pair.draft, contract, "dspark_block_size")
    if where is not None:
        yield Finding(
            code=CODE,
            severity="note",
            confidence="likely",
            message="dspark_block_size stands in the drafter's config only; a reader of the target's gets 0",
            where=where,
            axis="block.width",
            found="absent",
            expected=contract.get("block.width"),
            fix="copy the dspark_* keys into the target's config",
        )
