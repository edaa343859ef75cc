"""An engine takes another state of the tapped layers, or in another basis.

What it finds
    The state captured at a tap differs from `taps.state` (after the final norm instead of before it, a mean
    over streams or not), or the residual stream is rotated (`taps.basis`).
Why it matters
    Hugging Face's `hidden_states[-1]` comes after the final norm, engines capture the residual stream before
    it. A quantisation that rotates the stream changes every feature and leaves the target's output as it
    was.
In acceptance
    A rotated basis kills the drafter (length 1.07 instead of 3.09). A normed last tap lowers all positions.
Example
    A drafter that taps the last layer, run by transformers:5.23: that tap comes after the final norm.
Fix
    Run it in an engine that captures as the drafter was trained, or leave the last layer out when training.
References
    vllm-ascend#5974, vllm-ascend#7038, sglang#32204 (F24, S06 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD402"
NAME = "engine-tap-state"
AXES = frozenset({"taps.state", "taps.basis"})


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "reads")
