"""The drafter is stored as float16 although the target is a bfloat16 model.

What it finds
    float16 tensors (or dtype) of the drafter beside bfloat16 ones of the target. A target in float16 or
    float32 is no finding.
Why it matters
    float16 ends at 65504. The residual streams of bfloat16 models go beyond that at a few channels and
    tokens, and the drafter's fc adds several of them up: infinities, then NaN, in the drafter alone.
In acceptance
    0.06 of 15 drafts accepted. Where nothing overflows: no loss.
Example
    A drafter converted to float16 for a GPU without bfloat16, with a bfloat16 target.
Fix
    Run the drafter in bfloat16 (vLLM `--dtype bfloat16`, which holds for both), or compute fc and its norm in
    float32.
References
    lmdeploy#4991, TensorRT-LLM#5146 (S23, NaN in the verifier)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.regime_keys import stored_dtype

CODE = "TD308"
NAME = "half-precision"


def check(subject: Subject) -> Iterator[Finding]:
    """The dtype of most tensors, or the stated one where there are no tensors."""
    target, draft = stored_dtype(subject.pair.target), stored_dtype(subject.pair.draft)
    if target is None or draft is None or (draft.value, target.value) != ("float16", "bfloat16"):
        return
    yield Finding(
        code=CODE,
        severity="warning",
        confidence="possible",
        message="the drafter is float16 and the target bfloat16, whose features may overflow float16",
        where=draft.where,
        axis="regime.target_dtype",
        found=draft.value,
        expected=target.value,
        fix="run the drafter in bfloat16",
        references=("lmdeploy#4991",),
    )
