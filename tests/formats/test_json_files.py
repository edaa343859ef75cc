"""Config files that are not what they should be: one line each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoints import TARGET, ZLAB, write

from truedraft.contract import InputError
from truedraft.formats import resolve

BAD = {
    "empty": ("", "not JSON"),
    "cut off": ('{"architectures": [', "not JSON"),
    "a list": ("[]", "found a list, expected a JSON object"),
    "null": ("null", "found null"),
    "text": ('"x"', "found a string"),
    "NaN": ('{"rope_theta": NaN}', "found NaN, expected a finite number"),
    "Infinity": ('{"rope_theta": -Infinity}', "found -Infinity"),
    "overflow": ('{"rope_theta": 1e999}', "found 1e999"),
    "duplicate": ('{"a": 1, "a": 2}', "'a' appears twice"),
    "nested bomb": ("[" * 100_000, "nested too deeply"),
    "object bomb": ('{"a":' * 100_000, "nested too deeply"),
    "huge whole number": ('{"block_size": ' + "1" * 10_000 + "}", "whole number of 10000 digits"),
    "too large": (" " * (4 * 2**20 + 1), "larger than"),
}


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("name", BAD)
def test_bad_config(name: str, role: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    target = write(tmp_path / "target", text if role == "target" else TARGET)
    draft = write(tmp_path / "draft", text if role == "draft" else ZLAB)
    with pytest.raises(InputError) as caught:
        resolve(target, draft)
    assert message in str(caught.value)
    assert f"{role}/config.json" in str(caught.value)


def test_not_utf8_and_not_a_file(tmp_path: Path) -> None:
    target = write(tmp_path / "target", TARGET)
    draft = tmp_path / "draft"
    draft.mkdir()
    with pytest.raises(InputError, match=r"config\.json: no such file"):
        resolve(target, draft)
    (draft / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match="not UTF-8 at byte 7"):
        resolve(target, draft)
    (draft / "config.json").unlink()
    (draft / "config.json").mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        resolve(target, draft)


TARGETS = {
    "no layers": ({"num_hidden_layers": None}, "num_hidden_layers: missing"),
    "no vocabulary": ({"vocab_size": None}, "vocab_size: missing"),
    "zero layers": ({"num_hidden_layers": 0}, "found 0, expected 1 to"),
    "absurd layers": ({"num_hidden_layers": 10**15}, "expected 1 to 4096"),
    "hidden as text": ({"hidden_size": "64"}, "found '64', expected a whole number"),
    "layer_types": ({"layer_types": ["full_attention"]}, "found 1 entries, expected 8"),
    "eos as text": ({"eos_token_id": "x"}, "expected token ids"),
    "eos negative": ({"eos_token_id": [-1]}, "expected token ids"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_bad_target(name: str, tmp_path: Path) -> None:
    changes, message = TARGETS[name]
    with pytest.raises(InputError, match="target/config") as caught:
        resolve(write(tmp_path / "target", TARGET | changes), write(tmp_path / "draft", ZLAB))
    assert message in str(caught.value)


def test_target_spec(tmp_path: Path) -> None:
    text = {k: v for k, v in TARGET.items() if k not in ("architectures", "tie_word_embeddings")}
    target = write(tmp_path / "target", {"model_type": "qwen3_5", "text_config": text, "eos_token_id": 5})
    (target / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4, 3]}))
    spec = resolve(target, write(tmp_path / "draft", ZLAB)).contract.target
    assert (spec.layers, spec.hidden_size, spec.vocab_size, spec.max_positions) == (8, 64, 256, 1024)
    assert spec.stop_token_ids == (3, 4)
    assert spec.where == "target/config.json#/text_config"
    assert spec.layer_kinds == ("full_attention",) * 8
    assert spec.tied_head


def test_target_layer_kinds_of_a_hybrid_that_states_an_interval(tmp_path: Path) -> None:
    """As Qwen3-Next's published config, which has no layer_types."""
    hybrid = {"model_type": "qwen3_next", "full_attention_interval": 4}
    spec = resolve(write(tmp_path / "t", TARGET | hybrid), write(tmp_path / "draft", ZLAB)).contract.target
    assert spec.layer_kinds == (("linear_attention",) * 3 + ("full_attention",)) * 2


def test_target_layer_kinds_of_qwen2(tmp_path: Path) -> None:
    window = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 6}
    spec = resolve(write(tmp_path / "t", TARGET | window), write(tmp_path / "draft", ZLAB)).contract.target
    assert spec.layer_kinds == ("full_attention",) * 6 + ("sliding_attention",) * 2


def test_target_embedding_of_another_size(tmp_path: Path) -> None:
    target = write(tmp_path / "target", TARGET, {"model.embed_tokens.weight": (250, 64)})
    with pytest.raises(
        InputError, match=r"embed_tokens\.weight: found shape \[250, 64\], expected \[256, 64\]"
    ):
        resolve(target, write(tmp_path / "draft", ZLAB))
