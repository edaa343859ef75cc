"""From GGUF to a Hugging Face directory: exact weights, the same model, the same tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tiny_gguf import SPECIAL, TEMPLATE, model, rounded, vocabulary, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from truedraft.contract import InputError
from truedraft.fetch import convert


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    write_gguf(folder / "tiny.gguf")
    (folder / "model").mkdir()
    convert(folder / "tiny.gguf", folder / "model")
    return folder / "model"


def test_weights_are_exactly_those_of_the_quantised_model(directory: Path) -> None:
    found = load_file(directory / "model.safetensors")
    expected = {name: weight.detach().numpy() for name, weight in model().named_parameters()}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        wanted = rounded(values) if values.ndim == 2 else values
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], wanted, err_msg=name)


def test_half_precision_would_not_hold_them(directory: Path) -> None:
    found = load_file(directory / "model.safetensors")["model.layers.0.mlp.up_proj.weight"]
    assert (found.astype(np.float16).astype(np.float32) != found).any()


def test_the_loaded_model_computes_what_the_quantised_one_does(directory: Path) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        logits = loaded(ids).logits
        twin = model()
        before = {name: weight.clone() for name, weight in twin.state_dict().items()}
        for weight in twin.parameters():
            if weight.dim() == 2:
                weight.copy_(torch.from_numpy(rounded(weight.numpy())))
        expected = twin(ids).logits
        twin.load_state_dict(before)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


def test_config_states_decimals_and_the_stop_token(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    assert config["rms_norm_eps"] == 1e-5
    assert config["rope_parameters"] == {"rope_theta": 50_000.0, "rope_type": "default"}
    assert config["tie_word_embeddings"] is True
    assert json.loads((directory / "generation_config.json").read_text())["eos_token_id"] == 2


TEXTS = ["the  theory of 12 + 345", "a\n\n\tb", "naïve 日本 😀", "x  1  y", "<|im_start|>the<|im_end|>\n"]


@pytest.mark.parametrize("text", TEXTS)
def test_tokenizer_gives_every_text_back(directory: Path, text: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids) == text


def test_tokenizer_merges_splits_digits_and_keeps_special_tokens(directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokens = vocabulary()[0]

    def pieces(text: str) -> list[str]:
        return [tokens[i] for i in tokenizer(text).input_ids]

    assert pieces("the th") == ["the", "Ġ", "th"]
    # A digit is cut off before spaces are grouped, so both spaces in front of it stay together.
    assert pieces("x  12") == ["x", "ĠĠ", "1", "2"]
    assert pieces("<|im_end|>a") == [SPECIAL[2], "a"]
    assert (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id) == (2, 1, 2)
    assert tokenizer.chat_template == TEMPLATE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architecture": "mamba"}, "general.architecture: found 'mamba', expected 'llama'"),
        ({"without": "blk.1.ffn_up.weight"}, "found no tensor for model.layers.1.mlp.up_proj.weight"),
        ({"extra": "blk.0.ssm_a.weight"}, "blk.0.ssm_a.weight: found a tensor that this"),
        ({"extra": "output.weight"}, "output.weight: found shape [4], expected [262, 64]"),
    ],
)
def test_other_models_are_refused_in_one_line(tmp_path: Path, change: dict[str, str], words: str) -> None:
    write_gguf(tmp_path / "tiny.gguf", **change)  # type: ignore[arg-type]
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError) as raised:
        convert(tmp_path / "tiny.gguf", tmp_path / "out")
    assert words in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 9])
def test_bytes_that_are_no_gguf(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="not a GGUF file"):
        convert(tmp_path / "x.gguf", tmp_path / "out")


def test_a_truncated_gguf(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    data = (tmp_path / "tiny.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(data[: len(data) // 2])
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="not a GGUF file"):
        convert(tmp_path / "cut.gguf", tmp_path / "out")
