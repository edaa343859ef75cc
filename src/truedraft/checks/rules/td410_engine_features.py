"""An engine norms, joins or feeds back features otherwise.

What it finds
    The path from taps to the drafter (norm per tap, norm before or after `fc`) or the recurrence of a chain
    (token paired with a feature, residual before or after the norm, state that is fed back) differ.
Why it matters
    Producers leave the keys out that decide it, and readers' defaults are opposite (`norm_before_residual` is
    false to speculators and true to vLLM's converter).
In acceptance
    A norm that is not applied: 1.83 at healthy conditional rates. A wrong recurrence: position 0 right, then
    a cliff.
Example
    An EAGLE-3 config in speculators' format without norm_before_residual on vLLM.
Fix
    State the key in the draft config.
References
    ROCmFPX#44, ROCmFPX#48, vllm#14464, SpecForge#879 (F04, S45 to S48 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD410"
NAME = "engine-features"
AXES = frozenset(
    {
        "fusion.tap_norm",
        "fusion.concat_norm",
        "fusion.fc",
        "fusion.output_norm",
        "fusion.input_norm_on_context",
        "chain.token",
        "chain.position_offset",
        "chain.norm_before_residual",
        "chain.feedback",
        "chain.steps",
    }
)


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "runs")
