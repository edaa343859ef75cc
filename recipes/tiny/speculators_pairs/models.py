"""Build the library's own models, fresh or from what was shipped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from speculators.config import SpeculatorModelConfig
from speculators.model import SpeculatorModel
from speculators.models.dflash import DFlashDraftModel
from speculators.models.dspark import DSparkDraftModel
from speculators.models.eagle3 import Eagle3DraftModel
from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution
from transformers import LlamaConfig, PretrainedConfig, Qwen3Config

from corpus import token_stream
from settings import EOS_ID, MASK_ID, PAIR, SLIDING, TARGET_SHAPE, VOCAB_SIZE
from speculators_pairs.plan import Plan

CLASSES = {"dflash": DFlashDraftModel, "dspark": DSparkDraftModel, "eagle3": Eagle3DraftModel}
ATTENTION = "sdpa"


def layer_config(plan: Plan) -> PretrainedConfig:
    """Return the draft layers' transformers config: Llama for EAGLE-3, else Qwen3."""
    common: dict[str, Any] = {
        "hidden_size": TARGET_SHAPE.hidden,
        "num_hidden_layers": len(plan.layer_types),
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 256,
        "vocab_size": VOCAB_SIZE,
        "rms_norm_eps": plan.eps,
        "max_position_embeddings": 1024,
        "rope_parameters": {"rope_type": "default", "rope_theta": plan.theta},
        "bos_token_id": None,
        "eos_token_id": EOS_ID,
        "pad_token_id": EOS_ID,
        "tie_word_embeddings": False,
    }
    if plan.algorithm == "eagle3":
        return LlamaConfig(**common)
    windowed = SLIDING in plan.layer_types
    return Qwen3Config(
        **common,
        layer_types=list(plan.layer_types),
        use_sliding_window=windowed,
        sliding_window=plan.sliding_window,
        max_window_layers=0 if windowed else len(plan.layer_types),
    )


def fresh(plan: Plan) -> SpeculatorModel:
    """Return an untrained drafter from the library's own factory."""
    torch.manual_seed(plan.seed)
    mapping: dict[str, Any] = {}
    if plan.draft_vocab != VOCAB_SIZE:
        counts = dict(Counter(token_stream()))
        offsets, kept = build_vocab_mappings_from_distribution(counts, plan.draft_vocab, VOCAB_SIZE)
        mapping = {"t2d": kept, "d2t": offsets}
    return CLASSES[plan.algorithm].from_training_args(
        layer_config(plan),
        **mapping,
        draft_vocab_size=plan.draft_vocab,
        block_size=plan.block_size,
        mask_token_id=MASK_ID,
        sample_from_anchor=plan.sample_from_anchor,
        markov_rank=plan.markov_rank,
        norm_before_residual=plan.norm_before_residual,
        ttt_steps=plan.proposals,
        verifier_name_or_path=str(PAIR / "target"),
        target_layer_ids=list(plan.aux),
        draft_attn_impl=ATTENTION,
    )


def load(plan: Plan, folder: Path | None = None) -> SpeculatorModel:
    """Return a shipped drafter in fp32; the convention its file leaves out comes from the plan."""
    folder = folder or PAIR / plan.name
    kind = CLASSES[plan.algorithm]
    config: SpeculatorModelConfig = kind.config_class.from_pretrained(folder)
    config.speculators_config.verifier.name_or_path = str(PAIR / "target")
    if plan.algorithm == "dspark":
        config.sample_from_anchor = plan.sample_from_anchor
    config.transformer_layer_config._attn_implementation = ATTENTION
    model = kind.from_pretrained(folder, config=config, dtype=torch.float32)
    return model.eval().requires_grad_(False)
