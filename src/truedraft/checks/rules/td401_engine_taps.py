"""An engine feeds the drafter from other layers of the target than it was trained on.

What it finds
    The layers whose output an engine captures differ from `taps.layers`: ids read as entries of layers
    instead of outputs, a key that the engine does not read, a default in its place, another order.
Why it matters
    "Layer 40" is the output of layer 40 to DFlash, DSpark and Hugging Face (`hidden_states[41]`), and the
    entry of layer 40 to vLLM's capture rule. Neighbouring layers are alike (correlation near 0.95), so
    the drafter still works and nobody notices.
In acceptance
    A few per cent for an offset of one (Qwen3-8B: 3.92-4.03 instead of 4.11-4.16 on mt-bench); a quarter and
    more on small targets; a collapse where a default replaces taps from other depths (1.04 instead of 2.77).
    Position 0 falls first, the later conditional rates stay healthy.
Example
    target_layer_ids [1, 16, 31, 46, 61] on vllm:0.20.1:v1: outputs 0/15/30/45/60 are captured.
Fix
    A release or a runner that converts the ids, or ids that mean the right layers under the engine's
    reading; the finding names what is known. Never both: a converted config is off by one where the engine
    converts too.
References
    vllm#40727, vllm#42704, the founding report on DSpark's V1 runner, sglang#25454, onnxruntime-genai#2538,
    tokenspeed#526 (F02, F03, S04, S05, S07 in the field log)
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._engine import differences
from truedraft.checks.rules._words import layers

CODE = "TD401"
NAME = "engine-taps"
AXES = frozenset({"taps.layers"})


def check(subject: Subject) -> Iterator[Finding]:
    """Entries of `diff(native, engine)` on the tapped layers."""
    yield from differences(subject, CODE, AXES, "captures the outputs of", layers)
