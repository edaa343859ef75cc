"""An engine counts sliding windows from another row.

What it finds
    Windows counted from the anchor for all slots in training (speculators, DeepSeek-V4), from each query in
    the engine, or the reverse.
Why it matters
    The last slots of a block then see up to block-size keys fewer than they were trained with.
In acceptance
    Small: 0.38 of 6.43 on `tiny/dflash-speculators` with a window of 32, less where the window is thousands
    wide.
Example
    speculators' DFlash with `sliding_window` 2048 on vLLM: slot 7 sees 2041 context rows, not 2048.
Fix
    None known in the engines; a wide window makes it harmless.
References
    speculators 0.9.0 `models/dflash/attention.py`, vLLM 0.32 `qwen3_dflash.py`, docs/sensitivity-tiny.md
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences

CODE = "TD406"
NAME = "engine-window-rule"
AXES = frozenset({"attention.window_rule"})


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on these axes."""
    yield from differences(subject, CODE, AXES, "counts windows by")
