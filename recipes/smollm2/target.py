"""The target as this project runs it, its tokenizer and its chat prompts."""

from __future__ import annotations

from typing import Any

import torch
from truedraft.formats import locate
from truedraft.models.load import load_tokenizer
from truedraft.models.load_target import load_target_model
from truedraft.models.target import HFTarget

NAME = "smollm2"


def load(taps: tuple[int, ...]) -> tuple[HFTarget, Any]:
    """The fetched target in fp32 with taps at layer outputs, and its tokenizer."""
    directory, _ = locate(NAME)
    assert directory is not None
    torch.set_num_threads(1)
    model = load_target_model(directory, dtype=torch.float32, device="cpu").requires_grad_(False)
    return HFTarget(model, taps), load_tokenizer(directory)


def chat_text(tokenizer: Any, text: str) -> str:
    """One user message with the chat template, up to where the answer begins."""
    message = [{"role": "user", "content": text}]
    return str(tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False))


def chat_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of `chat_text`, whose special tokens are all its own."""
    return [int(token) for token in tokenizer(chat_text(tokenizer, text), add_special_tokens=False).input_ids]
