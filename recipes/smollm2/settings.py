"""Sizes, seeds, step counts and paths of the SmolLM2 drafters; every other file reads them here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from drafters.shapes import FULL, DrafterSpec, Shape

HERE = Path(__file__).resolve().parent
WORK = Path(os.environ.get("SMOLLM2_WORK") or HERE / "work")
WHEELS = WORK / "wheels"
PROMPTS = WORK / "prompts.jsonl"
SHARDS = WORK / "responses"


@dataclass(frozen=True)
class PromptList:
    """A part of the prompts: their numbers from `first` on, a seed, and the share of every kind.

    `wide`: with the texts that the first list did not have (methods of classes, more word problems).
    """

    first: int
    count: int
    seed: int
    shares: dict[str, float]
    wide: bool = False


PROMPT_LISTS = (
    PromptList(0, 1800, 1, {"word_problem": 0.38, "code": 0.22, "docstring": 0.15, "general": 0.25}),
    PromptList(
        10_000,
        6000,
        2,
        {"task": 0.35, "docstring": 0.20, "function": 0.05, "word_problem": 0.22, "general": 0.18},
        wide=True,
    ),
)
"""The second list has what drafters trained on the first one did badly on: texts without a template."""
LONGEST_PROMPT = 320
"""Tokens of a prompt with its chat template."""

SEQUENCES = 64
"""Decoded side by side."""
SHARD_SEQUENCES = 32
MAX_NEW_TOKENS = 128

TAPS = (1, 8, 14, 21, 27)
LAST_LAYER = 29
CAPTURED = (*TAPS, LAST_LAYER)
"""Layers whose outputs (residual stream) are kept; the last one gives the target's own distribution."""

VOCAB_SIZE = 49152
TARGET_LAYERS = 30
EOS_ID = 2
MASK_ID = 0
"""`<|endoftext|>`: a row that pretraining has seen often and chat text never holds."""

STATISTICS = WORK / "statistics.safetensors"
CHECKPOINTS = WORK / "checkpoints"
EXPORTS = WORK / "drafters"
EVALUATION = WORK / "evaluation"

PROPOSALS = 5
SHAPE = Shape(576, 2, 9, 3, 64, 1152, 1e-6, 10_000.0)
"""Theta is not the target's 1e5, so that a reader that takes the target's is noticed."""

FREQUENT_IDS = 4096
SAMPLED_IDS = 1024
"""Output rows per step: the most frequent ids of the answers, and a fresh sample of all others."""

STEP_SEQUENCES = 2
STEP_ANCHORS = 32
WARM_UP = 100
HELD_OUT_EVERY, HELD_OUT_PHASE = 20, 7
"""Prompts with this number modulo 20 are never trained on."""

DRAFTERS = {
    spec.name: spec
    for spec in (
        DrafterSpec(
            "dflash", "dflash", SHAPE, TAPS, (FULL, FULL), None, PROPOSALS + 1, 1,
            cycle=8000, cycles=2, rate=2e-3, seed=31, mask_id=MASK_ID,
        ),
        DrafterSpec(
            "dspark", "dspark", SHAPE, TAPS, (FULL, FULL), None, PROPOSALS, 0,
            cycle=8000, cycles=2, rate=2e-3, seed=32, markov_rank=32, mask_id=MASK_ID,
        ),
    )
}  # fmt: skip
