"""An engine rotates the draft layers otherwise than in training.

What it finds
    Base, rotated dimensions, layout or scaling of a draft layer's rotary embedding differ: YaRN on layers
    that never saw it, a `partial_rotary_factor` that the trainer ignored, the rope of another config.
Why it matters
    Rotary tables are built from config keys that training and serving resolve separately: nested or flat, the
    target's config or the drafter's, one table for all layers.
In acceptance
    From a few per cent (57 % to 69 % together with another fix) to a collapse; YaRN hurts more the further
    apart the positions are.
Example
    DSpark stages 44 and 45 beyond the target's 44 `compress_ratios` on vllm-jasl:b5c0d43b: YaRN instead of
    plain.
Fix
    Write the rope where the engine reads it, or remove the key that it should not read.
References
    vllm#48304, speculators#613, atlas#78, Model-Optimizer#2221, the founding report on draft rope (F01, F10,
    S12)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences
from truedraft.checks.rules._words import rotations

CODE = "TD408"
NAME = "engine-rope"
AXES = frozenset(
    {
        "rope.theta",
        "rope.rotary_dims",
        "rope.placement",
        "rope.layout",
        "rope.scaling",
        "rope.attention_factor",
        "rope.positions",
    }
)


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "rotates with", rotations)
