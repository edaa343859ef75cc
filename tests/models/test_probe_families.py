"""`truedraft probe` on founding pairs from directories: it runs, accuses nothing, and decides nothing.

The drafters are random: whatever a verdict said of them would be wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from founding_models import _COMMON, _DEEPSEEK_V4, VOCABULARY, text
from founding_pairs import SMALL, published, write_draft, write_prompts, write_target
from reference_deepseek_v4 import random_weights
from safetensors.torch import load_file, save_file

from truedraft.cli import main

PROMPTS = [text(length, seed=4) for length in (5, 20, 30)]


def glm(root: Path) -> list[Path]:
    """GLM-5 with speculators' DSpark of the published 3-layer drafter."""
    write_target(root / "target", "glm_moe_dsa", num_hidden_layers=6)
    changes = {
        "aux_hidden_state_layer_ids": [1, 2, 3, 4, 6],
        "draft_vocab_size": VOCABULARY,
        "markov_rank": 16,
        "mask_token_id": VOCABULARY - 1,
        "sliding_window": 12,
    }
    name = "RedHatAI__GLM-5.2-or-5.3-speculator.dspark.3layer.partial"
    write_draft(root / "draft", root / "target", published(name, SMALL | changes, "transformer_layer_config"))
    return [root / "target", root / "draft"]


def qwen(root: Path) -> list[Path]:
    """A Qwen3.5 hybrid with z-lab's DFlash."""
    write_target(root / "target", "qwen3_5")
    config = published("z-lab__Qwen3.5-9B-DFlash.legacy", SMALL | {"num_hidden_layers": 2})
    config["layer_types"] = config["layer_types"][-2:]
    config["dflash_config"] |= {"target_layer_ids": [0, 1, 2], "mask_token_id": VOCABULARY - 1}
    config["num_target_layers"] = 4
    write_draft(root / "draft", root / "target", config)
    return [root / "target", root / "draft"]


def deepseek(root: Path) -> list[Path]:
    """One directory: a DeepSeek-V4 with its stages."""
    write_target(root, "deepseek_v4")
    sizes: dict[str, Any] = _COMMON | _DEEPSEEK_V4
    saved = json.loads((root / "config.json").read_text())
    config = sizes | {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "eos_token_id": saved["eos_token_id"],
        "rms_norm_eps": saved["rms_norm_eps"],
        "scoring_func": "sqrtsoftplus",
        "norm_topk_prob": True,
        "hc_eps": saved["hc_eps"],
        "compress_ratios": [*sizes["compress_ratios"], 0],
        "dspark_block_size": 5,
        "dspark_noise_token_id": VOCABULARY - 1,
        "dspark_target_layer_ids": [1, 2, 3],
        "dspark_markov_rank": 8,
    }
    (root / "config.json").write_text(json.dumps(config))
    weights = load_file(root / "model.safetensors") | random_weights(config, VOCABULARY, 1, 3)
    save_file(weights, root / "model.safetensors")
    return [root]


@pytest.mark.parametrize(("make", "count"), [(glm, 12), (qwen, 18), (deepseek, 9)])
def test_a_random_drafter_of_every_family_decides_nothing(
    capsys: Any, tmp_path: Path, make: Any, count: int
) -> None:
    names = [str(path) for path in make(tmp_path)]
    prompts = write_prompts(tmp_path / "prompts.jsonl", PROMPTS)
    axes = ("--axes", "taps.layers,block.first_slot,rope.theta", "--max-new-tokens", str(count))
    capsys.readouterr()
    code = main(["probe", *names, "--prompts", str(prompts), *axes, "--json", "--quiet"])
    out, err = capsys.readouterr()
    assert (code, err) == (3, "")
    report = json.loads(out)
    assert report["prompts"] >= 3
    assert {"taps.layers", "block.first_slot", "rope.theta"} <= set(report["axes"])
    for axis in report["axes"].values():
        assert axis["verdict"] == "undecided"
        assert "no wiring that was tried gets enough first drafts right" in axis["reason"]
        tried = [candidate for candidate in axis["candidates"] if candidate["tau"] is not None]
        assert all(candidate["standing"] != "not tried" for candidate in axis["candidates"])
        assert len(tried) >= 2
