"""The fetched SmolLM2 as transformers runs it: the oracle of the `smollm2` tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from truedraft.formats import cache_directory


def directory() -> Path:
    return cache_directory() / "smollm2"


@cache
def reference() -> Any:
    """transformers' own model with its own attention."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(directory(), dtype=torch.float32).eval()


def greedy(prompt: list[int], new_tokens: int) -> list[int]:
    """The new tokens of `transformers.generate`."""
    ids = torch.tensor([prompt])
    out = reference().generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, do_sample=False
    )
    return list(out[0, ids.shape[1] :].tolist())
