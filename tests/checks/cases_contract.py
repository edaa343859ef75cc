"""Cases of TD1xx: what the files say of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from case import Case, pair
from checkpoints import CONFIGS, DELETE, changed
from checkpoints import SPECULATORS_DSPARK as SPECULATORS
from targets import TARGETS

from truedraft.checks import Subject

V4 = json.loads((CONFIGS / "deepseek-ai__DeepSeek-V4-Flash-DSpark.partial.json").read_text())
"""Target and drafter in one config: 43 layers, 46 compress_ratios."""

V4_BASE = json.loads((CONFIGS / "deepseek-ai__DeepSeek-V4-Flash.partial.json").read_text())
"""A target without a DSpark drafter: 43 layers, 44 compress_ratios, no dspark_* keys."""

WINDOWED = {
    "transformer_layer_config/layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "transformer_layer_config/sliding_window": 16,
    "transformer_layer_config/use_sliding_window": True,
}


def speculators(directory: Path, changes: dict[str, Any] | None = None, **more: Any) -> Subject:
    """A subject in the speculators format."""
    return pair(directory, changes or {}, base=SPECULATORS, **more)


def hybrid(directory: Path, target: dict[str, Any] | None = None, **more: Any) -> Subject:
    """The founding pair: stages of one checkpoint on a target whose config does not know them."""
    return pair(directory, {}, target or {}, base=V4, target_base=V4_BASE, **more)


COVERED = {"compress_ratios": V4["compress_ratios"], "dspark_block_size": 5}
QWEN4B = json.loads((CONFIGS / "deepseek-ai__dspark_qwen3_4b_block7.json").read_text())
SMALLER = changed(TARGETS["Qwen3-4B"], {"num_hidden_layers": 32})

CASES = [
    Case(
        "TD101",
        lambda d: pair(d, {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}),
        lambda d: pair(d, {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}}),
        ("rope.theta", "rope_parameters"),
    ),
    Case(
        "TD101",
        lambda d: speculators(d, {"speculators_config/proposal_methods": [{"speculative_tokens": 12}]}),
        lambda d: speculators(d, {"speculators_config/proposal_methods": [{"speculative_tokens": 7}]}),
        ("block.proposals", "12"),
        name="gamma",
    ),
    Case(
        "TD102",
        lambda d: speculators(d, {"sample_from_anchor": DELETE, "block_size": 16}),
        speculators,
        ("block.first_slot", "sample_from_anchor"),
        "warning",
    ),
    Case(
        "TD102",
        lambda d: speculators(d, {**WINDOWED, "sliding_window_non_causal": DELETE}),
        lambda d: speculators(d, WINDOWED),
        ("attention.causal",),
        "warning",
        name="causality",
    ),
    Case(
        "TD103",
        lambda d: speculators(d, {"sample_from_anchor": DELETE}),
        speculators,
        ("block.first_slot", "predicts_next"),
        "warning",
    ),
    Case(
        "TD104",
        lambda d: pair(d, {"slidng_window": 16}),
        pair,
        ("slidng_window", "sliding_window"),
        "warning",
    ),
    Case(
        "TD105",
        lambda d: pair(d, base=QWEN4B, target_base=SMALLER),
        lambda d: pair(d, base=QWEN4B, target_base=TARGETS["Qwen3-4B"]),
        ("33", "-1 to 31"),
    ),
    Case("TD106", lambda d: pair(d, {"vocab_size": 512}), pair, ("512", "256")),
    Case("TD107", lambda d: pair(d, {"hidden_size": 48}), pair, ("48", "64")),
    Case("TD108", lambda d: pair(d, {"dflash_config/mask_token_id": 256}), pair, ("256", "0 to 255")),
    Case(
        "TD108",
        lambda d: pair(d, {"dflash_config/mask_token_id": 0}),
        pair,
        ("stop token",),
        "warning",
        name="stop",
    ),
    Case("TD109", lambda d: pair(d, {"block_size": 1}), pair, ("width 1",)),
    Case(
        "TD110", lambda d: pair(d, {"block_size": 0}), pair, ("block_size", "whole number >= 1"), name="zero"
    ),
    Case("TD110", lambda d: pair(d, {"layer_types": ["full_attention"] * 4}), pair, ("4 entries",)),
    Case(
        "TD111",
        lambda d: pair(d, {"dflash_config/target_layer_ids": [5, 3, 1]}),
        pair,
        ("5/3/1",),
        "warning",
    ),
    Case("TD112", lambda d: pair(d, {"use_sliding_window": DELETE}), pair, ("drops",), "warning"),
    Case(
        "TD113",
        lambda d: speculators(d, {"transformer_layer_config/rope_parameters/partial_rotary_factor": 0.25}),
        speculators,
        ("all 16 dimensions", "rotate 4"),
        "warning",
    ),
    Case(
        "TD113",
        lambda d: speculators(d, {"transformer_layer_config/rope_parameters/mrope_section": [2, 3, 3]}),
        speculators,
        ("multimodal",),
        "warning",
        name="mrope",
    ),
    Case("TD114", hybrid, lambda d: hybrid(d, COVERED), ("44 entries", "43, 44, 45"), "note"),
    Case(
        "TD114",
        hybrid,
        lambda d: hybrid(d, COVERED),
        ("dspark_block_size",),
        "note",
        name="block size",
    ),
    Case(
        "TD115",
        lambda d: pair(d, {}, {"rope_theta": 1e6}),
        lambda d: pair(d, {}, {"rope_theta": 1e4}),
        ("1000000",),
        "note",
    ),
]
