"""Compare this training forward with recorded outputs of z-lab and DeepSpec code.

python recipes/tiny/check_goldens.py GOLDENS_FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from drafters.drafting import block_hidden, confidence_logits, propose
from drafters.shapes import DrafterSpec, Shape
from drafters.stack import Drafter
from export import BORROWED

CASES = ("dflash_zlab_swa_causal", "dflash_zlab_full", "dspark_deepspec_vanilla")


def check(case: Path) -> tuple[float, int]:
    """Return the largest logit difference and the number of blocks; tokens must be equal."""
    config = json.loads((case / "draft" / "config.json").read_text())
    nested = config.get("dflash_config", config)
    rank = config.get("markov_rank", 0)
    family = "dspark" if "DSpark" in config["architectures"][0] else "dflash"
    shape = Shape(
        config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"],
        config["num_key_value_heads"], config["head_dim"], config["intermediate_size"],
        config["rms_norm_eps"], config["rope_parameters"]["rope_theta"],
    )  # fmt: skip
    spec = DrafterSpec(
        case.name, family, shape, tuple(nested["target_layer_ids"]),
        tuple(config["layer_types"]), config["sliding_window"],
        config.get("block_size") or nested["block_size"], int(family == "dflash"),
        cycle=0, cycles=0, rate=0.0, seed=0, markov_rank=rank,
    )  # fmt: skip
    drafter = Drafter(spec, config["vocab_size"], config["hidden_size"])
    weights = load_file(str(case / "draft" / "model.safetensors"))
    drafter.load_state_dict({k: v for k, v in weights.items() if k not in BORROWED})
    head = weights.get("lm_head.weight")
    target = load_file(str(case / "target" / "model.safetensors"))
    table = target["model.embed_tokens.weight"]
    head = target.get("lm_head.weight", table) if head is None else head
    io, expect = (
        load_file(str(case / "io.safetensors")),
        json.loads((case / "expect.json").read_text()),
    )
    worst, features = 0.0, torch.empty(1, 0, io["round0.new_features"].shape[-1])
    for index, (position, draft) in enumerate(
        zip(expect["anchor_positions"], expect["drafts"], strict=True)
    ):
        new = io[f"round{index}.new_features"].reshape(1, -1, features.shape[-1])
        features = torch.cat((features, new), 1)
        ids = io[f"round{index}.block_ids"].reshape(1, -1)[:, :1]
        anchors = torch.tensor([[position]])
        assert features.shape[1] == position
        hidden = block_hidden(drafter, table, features, anchors, ids)[0, 0]
        expected = io[f"round{index}.hidden"].reshape(-1, shape.hidden)[spec.first_slot :]
        worst = max(worst, float((hidden - expected).abs().max()))
        logits = io.get(f"round{index}.base_logits", io.get(f"round{index}.logits"))
        logits = logits.reshape(-1, config["vocab_size"])[-len(hidden) :]
        worst = max(worst, float((F.linear(hidden, head) - logits).abs().max()))
        if rank:
            previous = torch.cat((ids[0], torch.tensor(draft[:-1])))
            confidence = confidence_logits(drafter, hidden, previous)
            known = io[f"round{index}.confidence_logits"].flatten()
            worst = max(worst, float((confidence - known).abs().max()))
        tokens = propose(drafter, table, features, anchors, ids, head)[0]
        assert tokens.flatten().tolist() == draft
    return worst, len(expect["drafts"])


if __name__ == "__main__":
    with torch.no_grad():
        for name in CASES:
            print(name, *check(Path(sys.argv[1]) / name))
