"""The producers' on-disk formats of the SmolLM2 drafters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from drafters.layouts import decoder_config, write_directory
from drafters.shapes import DrafterSpec
from drafters.stack import Drafter
from settings import EOS_ID, TARGET_LAYERS, VOCAB_SIZE

POSITIONS = 8192
DTYPE = "bfloat16"
"""As the target's makers publish it: its features may be too large for fp16."""
FC_GAIN = 64.0
"""A norm follows fc, so its size is free; this brings its weights near those of the other layers."""


def drafter_config(spec: DrafterSpec) -> dict[str, Any]:
    """config.json: z-lab's layout for DFlash, that of speculators for DSpark."""
    decoder = {
        **decoder_config(spec.shape, "DFlashDraftModel", VOCAB_SIZE, EOS_ID, POSITIONS),
        "dtype": DTYPE,
        "layer_types": list(spec.layer_types),
        "max_window_layers": spec.shape.layers,
        "rope_parameters": {"rope_theta": spec.shape.theta, "rope_type": "default"},
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
    }
    if spec.family == "dflash":
        nested = {
            "block_size": spec.width,
            "mask_token_id": spec.mask_id,
            "target_layer_ids": list(spec.taps),
        }
        return {**decoder, "dflash_config": nested, "num_target_layers": TARGET_LAYERS}
    del decoder["architectures"]
    proposal = {"proposal_type": "greedy", "speculative_tokens": spec.proposals}
    return {
        "architectures": ["DSparkDraftModel"],
        "aux_hidden_state_layer_ids": [tap + 1 for tap in spec.taps],
        "block_size": spec.width,
        "confidence_head_with_markov": True,
        "draft_vocab_size": VOCAB_SIZE,
        "dtype": DTYPE,
        "enable_confidence_head": True,
        "markov_head_type": "vanilla",
        "markov_rank": spec.markov_rank,
        "mask_token_id": spec.mask_id,
        "sample_from_anchor": True,
        "sliding_window_non_causal": False,
        "speculators_config": {
            "algorithm": "dspark",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"architectures": ["LlamaForCausalLM"], "name_or_path": "smollm2"},
        },
        "speculators_model_type": "dspark",
        "tie_word_embeddings": False,
        "transformer_layer_config": decoder,
    }


def write_drafter(drafter: Drafter, scale: Tensor, folder: Path) -> None:
    """Write a drafter that takes the features as they are: their scale [taps * hidden] goes into fc."""
    weights = dict(drafter.state_dict())
    weights["fc.weight"] = FC_GAIN * weights["fc.weight"] / scale
    write_directory(folder, drafter_config(drafter.spec), weights)
