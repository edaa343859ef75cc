"""What can be wrong in a tiny drafter's config, for live tests and `benchmarks/broken_vllm.py`."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]


def hide_ids(config: Config) -> None:
    """V1 reads the ids of a non-empty `eagle_config` instead, and there are none."""
    config["eagle_config"] = {"use_aux_hidden_state": True}


def all_full(config: Config) -> None:
    """Speculators' default causal flag, on full layers only: vLLM makes them causal."""
    inner = config["transformer_layer_config"]
    inner["layer_types"] = ["full_attention"] * inner["num_hidden_layers"]
    inner |= {"use_sliding_window": False, "sliding_window": None}


def norm_after(config: Config) -> None:
    config["norm_before_residual"] = False


def other_slot(config: Config) -> None:
    config["sample_from_anchor"] = True
