"""The fetched target: its text makes sense, its tokenizer is faithful, our adapter computes the same."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from smollm2_model import directory, greedy, reference
from truedraft.decode import Decoder
from truedraft.fetch import SOURCES, read_record
from truedraft.models.load import load_tokenizer
from truedraft.models.load_target import load_target_model
from truedraft.models.target import HFTarget

pytestmark = pytest.mark.smollm2

QUESTIONS = (
    "What is the capital of France?",
    "Name three primary colors.",
    "Write a Python function that adds two numbers.",
    "Tom has 5 apples and buys 3 more. How many apples does he have?",
    "Translate 'good morning' into Spanish.",
)
NEW_TOKENS = 48


@cache
def tokenizer() -> Any:
    return load_tokenizer(directory())


def prompt(question: str) -> list[int]:
    message = [{"role": "user", "content": question}]
    encoded = tokenizer().apply_chat_template(message, add_generation_prompt=True, return_dict=True)
    return list(encoded["input_ids"])


@cache
def plain(question: str) -> tuple[int, ...]:
    return tuple(greedy(prompt(question), NEW_TOKENS))


@cache
def target() -> HFTarget:
    model = load_target_model(directory(), dtype=torch.float32, device="cpu")
    return HFTarget(model, (1, 14, 27, 29))


def test_the_record_is_that_of_the_pinned_package() -> None:
    record = read_record(directory(), SOURCES["smollm2"])
    assert record is not None
    assert record["licence"] == "Apache-2.0"


def test_answers_are_english() -> None:
    assert "Paris" in tokenizer().decode(plain(QUESTIONS[0]))
    assert "def " in tokenizer().decode(plain(QUESTIONS[2]))
    assert plain(QUESTIONS[0])[-1] == tokenizer().eos_token_id


def test_adapter_decodes_as_transformers_does() -> None:
    decoder = Decoder(target())
    found = decoder.generate([prompt(question) for question in QUESTIONS], NEW_TOKENS)
    assert [tuple(one.tokens) for one in found] == [plain(question) for question in QUESTIONS]


def test_taps_are_hidden_states_of_the_layers() -> None:
    from truedraft.decode.protocols import Batch

    ids = prompt(QUESTIONS[3])
    cache_ = target().new_cache()
    batch = Batch(torch.tensor(ids), torch.arange(len(ids)), (0, len(ids)), (cache_.open(),))
    with torch.inference_mode():
        logits, taps = target().forward(batch, cache_)
        expected = reference()(torch.tensor([ids]), output_hidden_states=True)
    assert torch.isfinite(logits).all()
    torch.testing.assert_close(logits, expected.logits[0], rtol=0, atol=2e-3)
    for index, layer in enumerate((1, 14, 27)):  # transformers' last entry is past the final norm
        found = taps[:, index * 576 : (index + 1) * 576]
        torch.testing.assert_close(found, expected.hidden_states[layer + 1][0], rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize(
    "text",
    [
        "Hello world, it's 12345 and 3.14!",
        "def f(x):\n    return x**2  # square\n\n\n\tif x  >  10:\n",
        "naïve café 日本語 😀 don't I'll we've",
        "  leading   spaces 1 22 333",
    ],
)
def test_tokenizer_gives_every_text_back(text: str) -> None:
    ids = tokenizer()(text).input_ids
    assert tokenizer().decode(ids) == text


def test_digits_are_tokens_of_their_own_and_keep_spaces_together() -> None:
    pieces = tokenizer().convert_ids_to_tokens(tokenizer()("if x  >  10").input_ids)
    assert pieces == ["if", "Ġx", "Ġ", "Ġ>", "ĠĠ", "1", "0"]
