"""The drafter taps layers that the target does not have.

What it finds
    A layer id beyond the target's last layer or below the embedding (-1), a repeated one, or none at all.
Why it matters
    It is the surest sign of the wrong target, or of ids in another convention (HF index = layer + 1).
    Engines crash at the first forward, or capture fewer features, or ignore the id without a word.
In acceptance
    Mostly none, because it crashes: "mat1 and mat2 shapes cannot be multiplied (Nx10240 and 12800x2560)".
Example
    Qwen3-4B-DFlash (taps up to 33, 36 layers) with the 32-layer Qwen3.5-4B.
Fix
    The target that the drafter was trained for; or ids converted to what their key means.
References
    vllm#48113, sglang#32204, z-lab/dflash#156 (S95, S06 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._contradiction import contradiction

CODE = "TD105"
NAME = "impossible-taps"


def check(subject: Subject) -> Iterator[Finding]:
    """A contradiction of this kind, if the files have one."""
    yield from contradiction(
        subject,
        CODE,
        frozenset({"taps"}),
        fix="serve the drafter with the target that it was trained for",
        references=("vllm#48113",),
    )
