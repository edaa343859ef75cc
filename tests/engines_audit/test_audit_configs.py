"""What stands in for transformers' configs, against transformers itself."""

from __future__ import annotations

from typing import Any

import pytest

from truedraft.engines.vllm.audit import PROBES
from truedraft.engines.vllm.audit.configs import MissingKey, config_class, raw_config

transformers = pytest.importorskip("transformers")
RAW = [probe for probe in PROBES if (probe.draft or {}).get("model_type") in ("qwen3", "llama")]
EXTRA: dict[str, dict[str, Any]] = {
    "flat yarn": {"model_type": "qwen3", "rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 2.0}},
    "partial": {"model_type": "qwen3", "rope_theta": 5e5, "partial_rotary_factor": 0.5},
    "no rope": {"model_type": "qwen3"},
    "window of late layers": {
        "model_type": "qwen3",
        "use_sliding_window": True,
        "max_window_layers": 2,
        "num_hidden_layers": 4,
    },
    "llama3": {
        "model_type": "llama",
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 1024,
        },
    },
}
CASES = {probe.name: dict(probe.draft or {}) for probe in RAW} | EXTRA
KEYS = (
    "rope_parameters",
    "layer_types",
    "sliding_window",
    "head_dim",
    "num_key_value_heads",
    "max_position_embeddings",
)


@pytest.mark.parametrize("config", CASES.values(), ids=CASES)
def test_the_stand_in_reads_as_transformers_does(config: dict[str, Any]) -> None:
    kinds = {"qwen3": transformers.Qwen3Config, "llama": transformers.LlamaConfig}
    theirs = kinds[config["model_type"]](**{k: v for k, v in config.items() if k != "model_type"})
    ours = raw_config(config, config_class(set()))
    for key in KEYS:
        mine, other = getattr(ours, key, None), getattr(theirs, key, None)
        if key == "rope_parameters":
            mine, other = plain(mine), plain(other)
        assert mine == other, key


def plain(record: Any) -> dict[str, Any]:
    return {
        key: float(value) if isinstance(value, int) else value for key, value in dict(record or {}).items()
    }


def test_reads_are_noted_and_absent_keys_raise() -> None:
    reads: set[str] = set()
    config = raw_config(
        {"model_type": "qwen3", "dflash_config": {"target_layer_ids": [1]}}, config_class(reads)
    )
    reads.clear()
    assert config.dflash_config.get("target_layer_ids") == [1]
    with pytest.raises(MissingKey):
        _ = config.nothing
    assert not hasattr(config, "other")
    assert reads == {"/dflash_config", "/dflash_config/target_layer_ids", "/nothing", "/other"}
