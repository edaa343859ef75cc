"""An engine drops the drafter's sliding windows, or makes some where there are none.

What it finds
    The window per draft layer differs from `attention.window`: `layer_types` or `sliding_window` not read,
    one window forced on every layer.
Why it matters
    A sliding layer never saw keys further back than its window; run as full attention it reads noise.
In acceptance
    Nothing below the window, then a fall that grows with the context; late positions reach exactly 0
    (0.600, 0.385, 0.215, 0.108, 0.062, 0, 0).
Example
    z-lab's Qwen3.6-27B drafter (4 of 5 layers, window 2048) on vllm:0.20.1:v1: all five layers are full.
Fix
    A release that reads `layer_types` (vLLM: mixed layers need the V2 runner); else keep requests below the
    window.
References
    vllm#40898, vllm#46104, vllm#47914, AEON#6, z-lab/dflash#126 (F17, S19, S21 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD405"
NAME = "engine-window"
AXES = frozenset({"attention.window"})


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "runs windows")
