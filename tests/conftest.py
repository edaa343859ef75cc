"""Shared fixtures: where the copied goldens lie, and small random targets of every supported architecture."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: threads would only wait for each other

hypothesis.settings.register_profile("truedraft", deadline=None)  # timed assertions belong in benchmarks
hypothesis.settings.load_profile("truedraft")

DATA = Path(__file__).parent / "data"
GOLDENS = DATA / "goldens"


@cache
def random_model(kind: str) -> Any:
    """A random fp32 model of a supported architecture: vocabulary 256, 4 layers, unequal norms."""
    import torch
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

    sizes: dict[str, Any] = {
        "vocab_size": 256,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "eos_token_id": 0,
        "bos_token_id": None,
        "pad_token_id": 0,
        "initializer_range": 0.3,
    }
    torch.manual_seed(7)
    if kind == "llama":
        model: Any = LlamaForCausalLM(LlamaConfig(**sizes))
    elif kind == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**sizes))
    elif kind == "qwen2-window":
        window = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2}
        model = Qwen2ForCausalLM(Qwen2Config(**sizes, **window))
    else:
        model = Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=16))
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.data = 0.5 + torch.rand_like(weight)
    return model.eval()


def greedy_read(drafter: Any, hidden: Any, anchors: Any) -> tuple[Any, Any, Any]:
    """Greedy drafts [B, γ] of blocks' hidden states, their logits and their confidence."""
    from truedraft.decode import Drafts

    drafts = Drafts(target_ids=drafter.readout.target_ids)
    logits, confidence = drafter.readout.read(hidden, anchors, drafts)
    return drafts.proposal().tokens, logits, confidence


@pytest.fixture(params=["qwen3", "qwen2", "qwen2-window", "llama"])
def kind(request: pytest.FixtureRequest) -> str:
    """Every architecture that the target adapter supports."""
    return str(request.param)


RECIPES = Path(__file__).parents[1] / "recipes"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of `recipes/smollm2` by name, as its scripts do, and forgets it after the file.

    The recipe's own files go to a temporary folder.
    """
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOLLM2_WORK", str(tmp_path_factory.mktemp("work")))
        patch.syspath_prepend(str(RECIPES))
        patch.syspath_prepend(str(RECIPES / "smollm2"))
        yield import_module
    for name in set(sys.modules) - before:
        if str(RECIPES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
