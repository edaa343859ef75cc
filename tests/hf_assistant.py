"""A z-lab DFlash checkpoint in the layout of transformers' own DFlash generator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from truedraft import Contract

RENAMED = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}


def load_assistant(contract: Contract, source: Path, folder: Path) -> Any:
    """The drafter in `source` as a `MuseGlimmerAssistantModel`, converted in `folder`.

    transformers runs every layer with full, bidirectional attention inside the block, so that only
    drafters trained so are the same model there; raises `ValueError` for others.
    """
    import transformers

    if any(contract["attention.causal"]) or any(contract["attention.window"]):
        raise ValueError("transformers' generator has neither causal blocks nor windows")
    if contract["block.first_slot"] != "unused":
        raise ValueError("transformers' generator never reads slot 0")
    config = json.loads((source / "config.json").read_text())
    config = {key: value for key, value in config.items() if value is not None}
    config.pop("dflash_config", None)
    config |= {
        "architectures": ["MuseGlimmerAssistantModel"],
        "model_type": "muse_glimmer_assistant",
        "block_size": contract["block.width"],
        "mask_token_id": contract["block.mask_token_id"],
        "target_layer_ids": list(contract["taps.layers"]),
        "rope_parameters": {"rope_theta": contract["rope.theta"][0], "rope_type": "default"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    weights = {
        RENAMED.get(name, name): tensor for name, tensor in load_file(source / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors")
    return transformers.MuseGlimmerAssistantModel.from_pretrained(folder, dtype=torch.float32)
