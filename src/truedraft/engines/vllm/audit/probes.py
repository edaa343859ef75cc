"""The pairs that a release is asked about: small configs in the layout of every producer, written by hand.

Values are chosen so that a misreading shows: ids whose neighbours are not tapped, a window on some layers
only, a rope base that no library takes by default.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]
LAYERS = 12


@dataclass(frozen=True)
class Probe:
    """`name`: key in JSON; `title`: in print; `method`: the `speculative_config` that a user writes.

    `draft` is `None` for stages inside the target's checkpoint.
    """

    name: str
    title: str
    method: str
    draft: Config | None
    target: Config


TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": LAYERS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "eos_token_id": 0,
    "tie_word_embeddings": False,
}
_DECODER: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "max_position_embeddings": 4096,
}
_FULL = {"layer_types": ["full_attention"] * 3}
_SLIDING = {"layer_types": ["sliding_attention"] * 3, "sliding_window": 16, "use_sliding_window": True}
_MIXED = _SLIDING | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
_FLAT = {"rope_theta": 500000.0, "rope_scaling": None}
_NESTED = {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}
_YARN = {
    "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
}
_DFLASH = {"mask_token_id": 1, "target_layer_ids": [1, 4, 8]}
_ZLAB = _DECODER | {
    "architectures": ["DFlashDraftModel"],
    "block_size": 8,
    "num_target_layers": LAYERS,
    "dflash_config": _DFLASH,
}
_HEADS = {
    "markov_rank": 24,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
_DEEPSPEC = (
    _DECODER
    | _FULL
    | _NESTED
    | _HEADS
    | {
        "architectures": ["Qwen3DSparkModel"],
        "sliding_window": None,
        "use_sliding_window": False,
        "block_size": 7,
        "mask_token_id": 1,
        "target_layer_ids": [1, 4, 8],
        "num_anchors": 512,
        "num_target_layers": LAYERS,
        "tie_word_embeddings": False,
    }
)
_EAGLE = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "draft_vocab_size": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rope_theta": 500000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
}


def _speculators(kind: str, draft: int, decoder: Config, **keys: Any) -> dict[str, Any]:
    """A config as speculators 0.9 saves it."""
    return {
        "speculators_model_type": kind,
        "speculators_version": "0.9.0",
        "architectures": [
            {"dflash": "DFlashDraftModel", "dspark": "DSparkSpeculator"}.get(kind, "Eagle3Speculator")
        ],
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": draft}],
            "verifier": {"name_or_path": "target", "architectures": ["Qwen3ForCausalLM"]},
        },
        "transformer_layer_config": dict(decoder),
        "tie_word_embeddings": False,
        **keys,
    }


def _speculators_block(kind: str, draft: int, decoder: Config, **keys: Any) -> dict[str, Any]:
    shared = {
        "block_size": 8,
        "aux_hidden_state_layer_ids": [2, 5, 9],
        "mask_token_id": 1,
        "draft_vocab_size": 256,
    }
    return _speculators(kind, draft, _DECODER | _NESTED | dict(decoder), **shared, **keys)


_V4: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "vocab_size": 256,
    "hidden_size": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "qk_rope_head_dim": 16,
    "q_lora_rank": 24,
    "o_lora_rank": 16,
    "o_groups": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_hash_layers": 0,
    "num_nextn_predict_layers": 1,
    "hc_mult": 4,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 20,
    "sliding_window": 128,
    "max_position_embeddings": 65536,
    "index_n_heads": 8,
    "index_head_dim": 16,
    "index_topk": 64,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "swiglu_limit": 10.0,
    "routed_scaling_factor": 1.5,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 4096,
    },
    "compress_ratios": [0, 0, *[4, 128] * 5, 0, 0, 0],
    "dspark_block_size": 5,
    "dspark_noise_token_id": 1,
    "dspark_target_layer_ids": [2, 6, 10],
    "dspark_markov_rank": 8,
    "tie_word_embeddings": False,
}


def _with(config: Config, pointer: str, value: Any) -> dict[str, Any]:
    """A copy of a config with one nested key changed."""
    made = copy.deepcopy(dict(config))
    outer, inner = pointer.split("/")
    made[outer] = made[outer] | {inner: value}
    return made


def _block(name: str, title: str, draft: Config, method: str = "dflash") -> Probe:
    return Probe(name, title, method, draft, TARGET)


_SPEC_EAGLE = _speculators(
    "eagle3",
    3,
    {k: v for k, v in _EAGLE.items() if k not in ("architectures", "draft_vocab_size")},
    draft_vocab_size=128,
    norm_before_residual=False,
    eagle_aux_hidden_state_layer_ids=[2, 5, 9],
)
_DSPARK_HEADS: dict[str, Any] = {"sliding_window_non_causal": False, **_HEADS}

PROBES = (
    _block("zlab-full", "z-lab DFlash, full layers", _ZLAB | _FULL | _FLAT),
    _block(
        "zlab-full-entries",
        "z-lab DFlash, the same with entries at the top level (the edit for vllm#40727)",
        _ZLAB | _FULL | _FLAT | {"eagle_aux_hidden_state_layer_ids": [2, 5, 9]},
    ),
    _block("zlab-sliding", "z-lab DFlash, sliding layers", _ZLAB | _SLIDING | _NESTED),
    _block("zlab-mixed", "z-lab DFlash, sliding and full layers", _ZLAB | _MIXED | _NESTED),
    _block(
        "zlab-mixed-unused",
        "z-lab DFlash, the same without use_sliding_window",
        {k: v for k, v in (_ZLAB | _MIXED | _NESTED).items() if k != "use_sliding_window"},
    ),
    _block(
        "zlab-bidirectional",
        "z-lab DFlash, sliding, dflash_config.causal false",
        _with(_ZLAB | _SLIDING | _NESTED, "dflash_config/causal", False),
    ),
    _block(
        "zlab-is-causal",
        "z-lab DFlash, sliding, is_causal false",
        _ZLAB | _SLIDING | _NESTED | {"is_causal": False},
    ),
    _block("zlab-yarn", "z-lab DFlash, YaRN", _ZLAB | _FULL | _YARN),
    _block(
        "zlab-use-swa",
        "z-lab DFlash, dflash_config.use_swa",
        _ZLAB | _FULL | _NESTED | {"dflash_config": _DFLASH | {"use_swa": True, "swa_window_size": 16}},
    ),
    _block(
        "zlab-unsorted",
        "z-lab DFlash, taps out of order",
        _with(_ZLAB | _FULL | _FLAT, "dflash_config/target_layer_ids", [8, 1, 4]),
    ),
    _block("deepspec-dspark", "DeepSpec DSpark", _DEEPSPEC, "dspark"),
    _block(
        "deepspec-gated", "DeepSpec DSpark, gated head", _DEEPSPEC | {"markov_head_type": "gated"}, "dspark"
    ),
    _block(
        "deepspec-dflash",
        "DeepSpec DFlash (markov_rank 0)",
        _DEEPSPEC | {"markov_rank": 0, "enable_confidence_head": False, "confidence_head_with_markov": False},
        "dspark",
    ),
    _block(
        "specforge-dspark",
        "SpecForge DSpark",
        _with(
            _ZLAB | _FULL | _NESTED | {"block_size": 7},
            "dflash_config/projector_type",
            "dspark",
        )
        | {"dflash_config": _DFLASH | {"projector_type": "dspark"} | _HEADS},
        "dspark",
    ),
    _block(
        "speculators-dflash",
        "speculators DFlash, full layers",
        _speculators_block("dflash", 7, _FULL, sliding_window_non_causal=False),
    ),
    _block(
        "speculators-dflash-full-free",
        "speculators DFlash, the same with sliding_window_non_causal (the edit for vllm#56692)",
        _speculators_block("dflash", 7, _FULL, sliding_window_non_causal=True),
    ),
    _block(
        "speculators-dflash-mixed",
        "speculators DFlash, sliding and full layers",
        _speculators_block("dflash", 7, _MIXED, sliding_window_non_causal=False),
    ),
    _block(
        "speculators-dflash-free",
        "speculators DFlash, sliding_window_non_causal",
        _speculators_block("dflash", 7, _SLIDING, sliding_window_non_causal=True),
    ),
    _block(
        "speculators-dspark-anchor",
        "speculators DSpark, sample_from_anchor",
        _speculators_block("dspark", 8, _FULL, sample_from_anchor=True, **_DSPARK_HEADS),
        "dspark",
    ),
    _block(
        "speculators-dspark-bonus",
        "speculators DSpark, bonus anchor",
        _speculators_block("dspark", 7, _FULL, sample_from_anchor=False, **_DSPARK_HEADS),
        "dspark",
    ),
    _block("speculators-eagle3", "speculators EAGLE-3", _SPEC_EAGLE, "eagle3"),
    _block("eagle3", "SafeAILab EAGLE-3, no ids", _EAGLE, "eagle3"),
    _block(  # both train on outputs of layers: formats/readers/eagle3/taps.py
        "modelopt-eagle3",
        "NVIDIA ModelOpt, SpecForge EAGLE-3, ids in eagle_config",
        _EAGLE
        | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 4, 8], "use_aux_hidden_state": True}},
        "eagle3",
    ),
    _block(
        "angelslim-eagle3",
        "AngelSlim EAGLE-3, ids at the top level",
        _EAGLE | {"architectures": ["Eagle3LlamaForCausalLM"], "eagle_aux_hidden_state_layer_ids": [2, 5, 9]},
        "eagle3",
    ),
    Probe("deepseek-v4", "DSpark inside DeepSeek-V4", "dspark", None, _V4),
)
"""In the order in which they are printed."""
