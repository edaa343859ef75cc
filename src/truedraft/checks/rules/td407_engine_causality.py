"""An engine masks the block's rows from each other, or shows them.

What it finds
    Per draft layer: causal attention inside the block where training was bidirectional, or the reverse.
Why it matters
    Full layers are trained bidirectionally and sliding ones mostly causally; engines set one flag for all
    layers, or take a flag for the sliding layers to mean all.
In acceptance
    Often not visible (0.495 against 0.497 per draft) while half of all proposals change; up to a fifth on
    sliding layers.
Example
    `sliding_window_non_causal: false` in a speculators config makes vLLM 0.32 run the full layers causally
    too.
Fix
    Set the flag under which the engine does what was trained, where there is one; the finding says.
References
    vllm#56692, vllm#47453, z-lab/dflash@07ebd93 (S20 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD407"
NAME = "engine-causality"
AXES = frozenset({"attention.causal"})


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "makes layers causal:")
