"""Sizes, seeds, step counts and paths of the tiny pair; every other file reads them here."""

from __future__ import annotations

from pathlib import Path

from drafters.shapes import FULL, SLIDING, DrafterSpec, Shape

HERE = Path(__file__).resolve().parent
WORK = HERE / "work"
PAIR = HERE.parent.parent / "src" / "truedraft" / "pairs" / "tiny"

VOCAB_SIZE = 1024
EOS_ID, DOC_ID = 0, 1
SPECIAL_TOKENS = ["<|eos|>", "<|doc|>", "<|reserved_0|>", "<|reserved_1|>", "<|reserved_2|>"]
RESERVED_IDS = [2, 3, 4]
MASK_ID = DOC_ID

WINDOW_TOKENS = 384
STRIDE = 48
PROPOSALS = 7
MAX_NEW_TOKENS = 96
HELD_OUT_EVERY, HELD_OUT_PHASE = 16, 5


TARGET_SHAPE = Shape(128, 8, 6, 2, 32, 384, 1e-6, 1_000_000.0)
TARGET_STEPS = 880
TARGET_BATCH = 3
TARGET_SEED = 7

DRAFTER_BATCH = 4
ANCHORS_PER_WINDOW = 40

DRAFTERS = {
    spec.name: spec
    for spec in (
        DrafterSpec(
            "dflash", "dflash", Shape(128, 3, 4, 2, 32, 256, 1e-5, 10_000.0),
            (0, 3, 6), (SLIDING, FULL, SLIDING), 32, PROPOSALS + 1, 1, 950, 1, 0.01, 11,
        ),
        DrafterSpec(
            "dflash-full", "dflash", Shape(128, 2, 4, 2, 32, 256, 1e-5, 10_000.0),
            (1, 4, 6), (FULL, FULL), None, PROPOSALS + 1, 1, 1700, 1, 0.02, 12,
        ),
        DrafterSpec(
            "dspark", "dspark", Shape(128, 2, 4, 2, 32, 256, 1e-5, 10_000.0),
            (0, 3, 6), (FULL, FULL), None, PROPOSALS, 0, 900, 2, 0.01, 13, markov_rank=48,
        ),
    )
}  # fmt: skip
