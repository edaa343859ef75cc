"""Hugging Face's config class drops the window that layer_types asks for.

What it finds
    layer_types with sliding layers and a sliding_window, but use_sliding_window absent or false, in a config
    that is loaded as Qwen3Config.
Why it matters
    Qwen3Config sets sliding_window to None unless use_sliding_window is true. Loaders that read the JSON see
    a window, those that go through the class do not: vLLM and SGLang then stop, llama.cpp runs all layers
    full.
In acceptance
    Where it is silent: fine below the window, then late positions fall to 0.
Example
    z-lab's Qwen3.6-27B config without its "use_sliding_window": true.
Fix
    "use_sliding_window": true in the draft config.
References
    SGLang's regression test on this key, dflash.md §1.5; AEON#6 (F17 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.formats.traps import dropped_window

CODE = "TD112"
NAME = "window-dropped"


def check(subject: Subject) -> Iterator[Finding]:
    """A window that the config class would drop."""
    contract = subject.contract
    where = None if contract is None else dropped_window(subject.pair.draft, contract)
    if contract is not None and where is not None:
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="certain",
            message="layers slide, but without use_sliding_window Qwen3Config drops sliding_window",
            where=where,
            axis="attention.window",
            expected=contract.get("attention.window"),
            fix='"use_sliding_window": true in the draft config',
        )
