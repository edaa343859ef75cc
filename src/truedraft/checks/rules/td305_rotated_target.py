"""The target's weights are rotated, so its features lie in another basis than the drafter knows.

What it finds
    Files of the target that say its residual stream was multiplied by a rotation: ModelSlim's is_rot_used and
    optional/quarot.safetensors, rotation R1 in compressed-tensors. Other rotation keys are a note: most of
    them (R2 to R4, Hadamard on the KV cache) leave the residual stream alone.
Why it matters
    A rotation does not change the target's output, only its hidden states. The drafter's fc, and the
    embedding and head that it borrows, belong to the plain basis: three tensors must be turned, not one.
In acceptance
    1.07 instead of 3.09 (EAGLE-3), 0.06 % instead of 22 % (DFlash): dead from the first request.
Example
    Qwen3-32B-w8a8-QuaRot with a drafter trained on Qwen3-32B.
Fix
    vllm-ascend: a release that folds the rotation into the drafter (#7038 for EAGLE-3, #12775 for DFlash and
    DSpark); else a target quantised without rotation. `--set taps.basis=rotated` if the drafter was trained
    on this target.
References
    vllm-ascend#5974, vllm-ascend#7038, vllm-ascend#12775, vllm-ascend#13407 (F24), ik_llama.cpp#1840 (S42)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.regime_files import rotations

CODE = "TD305"
NAME = "rotated-target"


def check(subject: Subject) -> Iterator[Finding]:
    """The surest sign, unless drafter and target were rotated together."""
    pair, contract = subject.pair, subject.contract
    # A drafter inside the target's checkpoint passes through the same quantiser.
    together = pair.draft.directory.resolve() == pair.target.directory.resolve()
    if together or (contract is not None and contract.get("taps.basis") == "rotated"):
        return
    signs = rotations(pair.target)
    if not signs or any(sign.residual for sign in rotations(pair.draft)):
        return
    sign = signs[0]
    yield Finding(
        code=CODE,
        severity="warning" if sign.residual else "note",
        confidence="likely" if sign.residual else "possible",
        message=(
            f"the target's residual stream is rotated ({sign.what}), the drafter's files say nothing of it"
            if sign.residual
            else f"the target's quantisation names a rotation ({sign.what}), perhaps of the residual stream"
        ),
        where=sign.where,
        axis="taps.basis",
        found="rotated" if sign.residual else sign.what,
        expected="plain",
        fix="fold the rotation into fc, embedding and head of the drafter, or use an unrotated target",
        references=("vllm-ascend#5974", "vllm-ascend#12775"),
    )
