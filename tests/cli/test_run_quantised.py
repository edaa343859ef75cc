"""Quantised weights: `run` refuses them in one line that names them, `contract` and `check` read them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import GOLDENS
from truedraft.cli import main

CASE = GOLDENS / "dflash_trained"
REFUSAL = "expected unquantised weights (BF16, F16 or F32): `run` does not support quantised ones"
TARGET_MATRIX, DRAFT_MATRIX = "model.layers.0.mlp.down_proj", "layers.0.mlp.down_proj"


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    for part in ("target", "draft"):
        shutil.copytree(CASE / part, tmp_path / part)
    (tmp_path / "prompts.jsonl").write_text('{"tokens": [5, 6, 7]}\n')
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], command: str, pair: Path, *more: str) -> tuple[int, str, str]:
    code = main([command, str(pair / "target"), str(pair / "draft"), *more])
    return code, *capsys.readouterr()


def run(capsys: pytest.CaptureFixture[str], pair: Path) -> tuple[int, str, str]:
    return call(
        capsys, "run", pair, "--prompt-file", str(pair / "prompts.jsonl"), "--max-new-tokens", "4", "--quiet"
    )


def state(directory: Path, stated: dict[str, Any], key: str = "quantization_config") -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: stated}))


def store(directory: Path, matrix: str, dtype: torch.dtype, *companions: str) -> None:
    """Save one matrix in `dtype`, with tensors of scales beside it."""
    file = directory / "model.safetensors"
    tensors = load_file(file)
    tensors[f"{matrix}.weight"] = tensors[f"{matrix}.weight"].to(dtype)
    tensors |= {f"{matrix}.{companion}": torch.ones(1) for companion in companions}
    save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, "found fp8 e4m3"),
        (
            {"quant_method": "compressed-tensors", "format": "float-quantized"},
            "found compressed-tensors float-quantized",
        ),
        ({"quant_method": "awq", "bits": 4}, "found awq 4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "found bitsandbytes"),
        ({"quant_algo": "NVFP4"}, "found NVFP4"),
    ],
)
def test_a_target_whose_config_states_it(
    capsys: pytest.CaptureFixture[str], pair: Path, stated: dict[str, Any], found: str
) -> None:
    """The files alone decide: no word about packages that transformers would need."""
    state(pair / "target", stated)
    code, out, err = run(capsys, pair)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"target/config.json#/quantization_config: {found}, {REFUSAL}" in err
    assert "pip" not in err
    for command in ("contract", "check"):
        assert call(capsys, command, pair)[0] == 0


def test_the_older_key_counts_too(capsys: pytest.CaptureFixture[str], pair: Path) -> None:
    state(pair / "target", {"quant_method": "compressed-tensors"}, "compression_config")
    code, _, err = run(capsys, pair)
    assert code == 2
    assert "target/config.json#/compression_config: found compressed-tensors, expected unquantised" in err


Spoil = Callable[[Path], None]
FP8 = torch.float8_e4m3fn


@pytest.mark.parametrize(
    ("spoil", "name", "found"),
    [
        (
            lambda p: store(p / "target", TARGET_MATRIX, FP8, "weight_scale_inv"),
            f"target/model.safetensors#{TARGET_MATRIX}.weight",
            "dtype F8_E4M3",
        ),
        (
            lambda p: store(p / "target", TARGET_MATRIX, FP8, "scale"),
            f"target/model.safetensors#{TARGET_MATRIX}.weight",
            "dtype F8_E4M3",
        ),
        (
            lambda p: store(p / "target", TARGET_MATRIX, torch.int8, "scale"),
            f"target/model.safetensors#{TARGET_MATRIX}.weight",
            "dtype I8",
        ),
        *(
            (
                lambda p, companion=companion: store(p / "draft", DRAFT_MATRIX, FP8, companion),
                f"draft/model.safetensors#{DRAFT_MATRIX}.weight",
                "dtype F8_E4M3",
            )
            for companion in ("scale", "weight_scale", "weight_scale_inv")
        ),
    ],
    ids=["target", "target .scale", "target I8", "draft", "draft weight_scale", "draft weight_scale_inv"],
)
def test_tensors_that_no_config_mentions(
    capsys: pytest.CaptureFixture[str], pair: Path, spoil: Spoil, name: str, found: str
) -> None:
    spoil(pair)
    code, out, err = run(capsys, pair)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{name}: found {found}, {REFUSAL}" in err
    for command in ("contract", "check"):
        assert call(capsys, command, pair)[0] == 0


def test_nothing_is_loaded_before_the_refusal(
    capsys: pytest.CaptureFixture[str], pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quantised drafter of a large target is refused at once, not after the target's minutes."""
    from truedraft.models import load

    def loaded(*_: Any, **__: Any) -> None:
        raise AssertionError("the target's weights were read")

    monkeypatch.setattr(load, "load_target_model", loaded)
    store(pair / "draft", DRAFT_MATRIX, FP8, "scale")
    assert run(capsys, pair)[0] == 2


def test_what_only_the_drafter_s_config_says_is_no_refusal(
    capsys: pytest.CaptureFixture[str], pair: Path
) -> None:
    state(pair / "draft", {"quant_method": "fp8"})
    assert run(capsys, pair)[0] == 0
