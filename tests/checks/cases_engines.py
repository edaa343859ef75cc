"""Cases of TD4xx: what releases would do with a pair. Healthy siblings change the release or one key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from case import Case, pair
from cases_contract import COVERED, SPECULATORS, V4, WINDOWED, hybrid, speculators
from checkpoints import DEEPSPEC, DELETE, changed, write

from truedraft.checks import Subject, Usage
from truedraft.formats import inspect
from truedraft.formats.engines import (
    KvLayout,
    KvView,
    find_engines,
    read_boot_log,
    read_engine,
    siblings,
)

EAGLE3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "draft_vocab_size": 128,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "eagle_aux_hidden_state_layer_ids": [2, 4, 6],
}
"""A chain of SafeAILab's kind that taps the entries 2, 4, 6."""

CONVERTED: dict[str, Any] = {
    "speculators_model_type": "eagle3",
    "speculators_version": "0.9.0",
    "architectures": ["Eagle3Speculator"],
    "speculators_config": SPECULATORS["speculators_config"] | {"algorithm": "eagle3"},
    "eagle_aux_hidden_state_layer_ids": [2, 4, 6],
    "draft_vocab_size": 128,
    "norm_before_residual": False,
    "transformer_layer_config": {
        k: v
        for k, v in EAGLE3.items()
        if k not in ("architectures", "draft_vocab_size", "eagle_aux_hidden_state_layer_ids")
    },
}
"""The same in the speculators format."""

DFLASH: dict[str, Any] = changed(
    SPECULATORS,
    {
        "speculators_model_type": "dflash",
        "speculators_config/algorithm": "dflash",
        "speculators_config/proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 7}],
        "sample_from_anchor": False,
    },
)
"""A DFlash drafter in the speculators format, all layers full."""

OWN = {
    "fc.weight": (64, 192),
    "embed_tokens.weight": (256, 64),
    "layers.0.self_attn.q_proj.weight": (64, 128),
    "lm_head.weight": (128, 64),
    "d2t": (128,),
}
"""Some tensors of a chain with an embedding of its own."""

FILL_IN = {
    "sample_from_anchor": False,
    "speculators_config/proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 7}],
}
"""What makes the speculators DSpark drafter one that drops slot 0."""

SGLANG = FILL_IN | {"model_type": "qwen3", "target_layer_ids": [1, 3, 5]}
"""The same, flattened far enough for SGLang to load it."""

FULL = {"layer_types": ["full_attention"] * 3, "use_sliding_window": False, "sliding_window": None}


def read(subject: Subject, *engines: str, asked: int | None = None) -> Subject:
    """The subject with the readings of these releases."""
    found = [engine for text in engines for engine in find_engines(text)]
    others = [s for e in found for s in siblings(e) if s not in found]
    return replace(
        subject,
        readings=tuple(read_engine(engine, subject.pair, asked) for engine in found),
        siblings=tuple(read_engine(engine, subject.pair, asked) for engine in others),
    )


def zlab(directory: Path, engine: str, draft: dict[str, Any] | None = None, **more: Any) -> Subject:
    """A z-lab pair as one release reads it."""
    return read(pair(directory, draft, **more), engine)


def log(subject: Subject, *lines: str) -> Subject:
    """The subject with a boot log."""
    return replace(subject, boot_log=tuple(read_boot_log(lines)))


def packed(span: int) -> KvLayout:
    """The founding layout: four layers packed into blocks of 149760 bytes."""
    views = tuple(KvView((100, 64, 584), offset, 149760) for offset in (0, 37440, 74880, 112320))
    return KvLayout(views, 100 * 149760, span, 149760)


def stages(directory: Path, ratios: int) -> Subject:
    """A DeepSeek-V4 checkpoint with its drafter inside and so many compress_ratios for its 43 layers."""
    config = changed(V4, {"compress_ratios": V4["compress_ratios"][:ratios]})
    return Subject(inspect(write(directory, config)))


def hybrid_block(directory: Path) -> Subject:
    """The founding pair as the fork's V1 runner reads it."""
    return read(hybrid(directory), "vllm-jasl:b5c0d43b:v1")


V1_LINE = "INFO 08-05 [gpu_model_runner.py:5416] Using auxiliary layers from speculative config: (2, 4, 6)"
TAPPED = {"dflash_config/target_layer_ids": [2, 4, 6]}
HYBRID = {"layer_types": ["linear_attention", "full_attention"] * 4}

CASES = [
    Case(
        "TD401",
        lambda d: zlab(d, "vllm:0.20.1:v1"),
        lambda d: zlab(d, "vllm:0.22.1:v1", FULL),
        ("outputs of 0/2/4", "says 1/3/5"),
    ),
    Case(
        "TD401",
        lambda d: read(pair(d, base=EAGLE3), "sglang:0.5.23"),
        lambda d: read(pair(d, base=EAGLE3), "vllm:0.32.0:v1"),
        ("outputs of 1/3/4", "says 1/3/5"),
        name="default",
    ),
    Case(
        "TD401",
        lambda d: zlab(d, "vllm:0.32.0:v2", {"dflash_config/target_layer_ids": [5, 3, 1]}),
        lambda d: zlab(d, "vllm:0.32.0:v2"),
        ("outputs of 1/3/5", "says 5/3/1"),
        name="order",
    ),
    Case(
        "TD402",
        lambda d: zlab(d, "transformers:5.23", {"target_layer_ids": [1, 3, 7], "dflash_config": {}}),
        lambda d: zlab(d, "transformers:5.23", {"target_layer_ids": [1, 3, 5], "dflash_config": {}}),
        ("post_norm",),
        "warning",
    ),
    Case(
        "TD403",
        lambda d: read(speculators(d), "vllm:0.26.0:v2"),
        lambda d: read(speculators(d), "vllm:0.28.0:v2"),
        ("unused", "predicts_next", "sample_from_anchor is not read"),
        name="anchor-first",
    ),
    Case(
        "TD403",
        lambda d: read(speculators(d, SGLANG), "sglang:0.5.18", asked=7),
        lambda d: read(speculators(d, SGLANG), "sglang:0.5.19", asked=7),
        ("predicts_next", "unused", "not read before 0.5.19"),
        name="bonus-anchor",
    ),
    Case(
        "TD403",
        hybrid_block,
        lambda d: read(hybrid(d, COVERED), "vllm-jasl:b5c0d43b:v1"),
        ("runs 0", "says 5", "target's config"),
        name="block size",
    ),
    Case(
        "TD404",
        lambda d: zlab(d, "transformers:5.23"),
        lambda d: zlab(d, "transformers:5.23", {"mask_token_id": 1}),
        ("201818", "mask_token_id"),
    ),
    Case(
        "TD405",
        lambda d: zlab(d, "vllm:0.24.0:v2"),
        lambda d: zlab(d, "vllm:0.26.0:v2"),
        ("3×none", "16,16,none"),
    ),
    Case(
        "TD405",
        lambda d: zlab(d, "llama.cpp", {"use_sliding_window": DELETE}),
        lambda d: zlab(d, "llama.cpp"),
        ("use_sliding_window",),
        name="llama.cpp",
    ),
    Case(
        "TD406",
        lambda d: read(speculators(d, WINDOWED), "vllm:0.32.0:v2"),
        lambda d: read(speculators(d), "vllm:0.32.0:v2"),
        ("query", "anchor"),
        "warning",
    ),
    Case(
        "TD407",
        lambda d: read(pair(d, base=DFLASH), "vllm:0.32.0:v1"),
        lambda d: read(pair(d, {"sliding_window_non_causal": True}, base=DFLASH), "vllm:0.32.0:v1"),
        ("3×true", "3×false", "sliding_window_non_causal=false becomes causal=true"),
    ),
    Case(
        "TD407",
        lambda d: zlab(d, "vllm:0.26.0:v2", {"is_causal": False}),
        lambda d: zlab(d, "vllm:0.28.0:v2", {"is_causal": False}),
        ("true,true,false",),
        name="is_causal",
    ),
    Case(
        "TD408",
        lambda d: read(hybrid(d), "vllm-jasl:b5c0d43b:v1"),
        lambda d: read(hybrid(d, COVERED), "vllm-jasl:b5c0d43b:v1"),
        ("none,yarn x16,yarn x16", "44 entries, so 44, 45"),
    ),
    Case(
        "TD408",
        lambda d: zlab(d, "vllm:0.28.0:v2", target={"model_type": "deepseek_v3"}),
        lambda d: zlab(d, "vllm:0.30.0:v2", target={"model_type": "deepseek_v3"}),
        ("interleaved", "deepseek_v3"),
        name="layout",
    ),
    Case(
        "TD409",
        lambda d: read(pair(d, base=EAGLE3, tensors=OWN), "sglang:0.5.23"),
        lambda d: read(pair(d, base=EAGLE3, tensors=OWN), "vllm:0.32.0:v1"),
        ("always the target's",),
        "note",
        name="embedding",
    ),
    Case(
        "TD409",
        lambda d: zlab(d, "vllm:0.32.0:v2", {"dflash_config/output_multiplier": 0.5}),
        lambda d: zlab(d, "vllm:0.32.0:v2", {"dflash_config/output_multiplier": 1.0}),
        ("output_multiplier",),
    ),
    Case(
        "TD410",
        lambda d: read(pair(d, {"norm_before_residual": DELETE}, base=CONVERTED), "vllm:0.32.0:v1"),
        lambda d: read(pair(d, base=CONVERTED), "vllm:0.32.0:v1"),
        ("norm_before_residual",),
        "warning",
    ),
    Case(
        "TD411",
        lambda d: read(pair(d, base=DEEPSPEC), "vllm:0.26.0:v2"),
        lambda d: read(pair(d, base=DEEPSPEC), "vllm:0.28.0:v2"),
        ("confidence head's weights are skipped",),
        "note",
    ),
    Case(
        "TD412",
        lambda d: read(stages(d, 45), "vllm:0.32.0:v2"),
        lambda d: read(stages(d, 46), "vllm:0.32.0:v2"),
        ("runs 3", "says 2", "n_mtp_layers"),
    ),
    Case(
        "TD420",
        lambda d: zlab(d, "vllm:0.32.0:v1"),
        lambda d: zlab(d, "vllm:0.32.0:v2"),
        ("mixed sliding/full", "VLLM_USE_V2_MODEL_RUNNER=1"),
    ),
    Case(
        "TD421",
        lambda d: read(hybrid(d), "vllm-jasl:b5c0d43b"),
        lambda d: read(pair(d, FULL), "vllm:0.32.0"),
        ("v1 39,40,41", "v2 40,41,42", "use vllm-jasl:b5c0d43b:v2"),
        "warning",
    ),
    Case(
        "TD422",
        lambda d: zlab(d, "vllm:0.30.0:v2", target=HYBRID),
        lambda d: zlab(d, "sglang:0.5.23", target=HYBRID),
        ("disable_eagle_block_drop",),
        "warning",
    ),
    Case(
        "TD423",
        lambda d: pair(d, usage=Usage(speculative_tokens=8)),
        lambda d: pair(d, usage=Usage(speculative_tokens=7)),
        ("8 drafts", "yields 7"),
    ),
    Case(
        "TD424",
        lambda d: pair(d, usage=Usage(temperature=1.0, draft_sampling=True)),
        lambda d: pair(d, usage=Usage(temperature=1.0, draft_sampling=False)),
        ("sampled independently",),
        "warning",
    ),
    Case(
        "TD424",
        lambda d: pair(d, base=DEEPSPEC, usage=Usage(temperature=1.0, draft_sampling=False)),
        lambda d: pair(d, base=DEEPSPEC, usage=Usage(temperature=0.0, draft_sampling=False)),
        ("argmax",),
        "note",
        name="argmax",
    ),
    Case(
        "TD425",
        lambda d: zlab(d, "vllm:0.28.0:v2"),
        lambda d: zlab(d, "sglang:0.5.23"),
        ("47930",),
        "warning",
    ),
    Case(
        "TD426",
        lambda d: read(speculators(d, FILL_IN), "vllm:0.28.0:v2"),
        lambda d: read(
            pair(d, {"num_hidden_layers": 1, "layer_types": ["full_attention"]}), "vllm:0.32.0:v1"
        ),
        ("reserved",),
        "warning",
    ),
    Case(
        "TD430",
        lambda d: log(pair(d, TAPPED), "noise", V1_LINE),
        lambda d: pair(d, TAPPED),
        ("outputs of 1/3/5", "says 2/4/6", "line 2", "(3, 5, 7)"),
    ),
    Case(
        "TD431",
        lambda d: pair(d, kv_layout=packed(149760)),
        lambda d: pair(d, kv_layout=packed(37376)),
        ("37376",),
    ),
]
