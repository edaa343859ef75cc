"""Targets' files that transformers refuses late or not at all: one line that names key or tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from founding_pairs import write_multimodal_target, write_target
from safetensors.torch import load_file, save_file
from torch import Tensor

from truedraft.contract import InputError
from truedraft.models.load import load_tokenizer
from truedraft.models.load_target import load_target_model

Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Targets as saved, by family; not to be changed."""
    root = tmp_path_factory.mktemp("targets")
    for family in ("deepseek_v4", "qwen3_next"):
        write_target(root / family, family)
    write_multimodal_target(root / "qwen3_5", "qwen3_5")
    return root


@pytest.fixture
def target(saved: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of one of them."""
    return Path(shutil.copytree(saved / request.param, tmp_path / "target"))


def load(directory: Path) -> Any:
    return load_target_model(directory, dtype=torch.float32, device="cpu")


def refused(directory: Path, *says: str) -> None:
    with pytest.raises(InputError) as caught:
        load(directory)
    for part in says:
        assert part in str(caught.value)
    assert len(str(caught.value)) < 600


def edit(directory: Path, nested: str = "", **changes: Any) -> None:
    path = directory / "config.json"
    config = json.loads(path.read_text())
    (config[nested] if nested else config).update(changes)
    path.write_text(json.dumps(config))


def restore(directory: Path, change: Callable[[Tensors], object]) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file({name: t.contiguous() for name, t in tensors.items()}, file, metadata={"format": "pt"})


KEYS: list[tuple[dict[str, Any], str]] = [
    ({"head_dim": None}, "config.json#/head_dim: found null, expected a whole number"),
    ({"norm_topk_prob": None}, "config.json#/norm_topk_prob: found null, expected true or false"),
    ({"rms_norm_eps": None}, "config.json#/rms_norm_eps: found null, expected a number"),
    ({"rope_parameters": "zzz"}, 'config.json#/rope_parameters: found "zzz", expected an object or null'),
    ({"partial_rotary_factor": "x"}, 'partial_rotary_factor: found "x", expected a number or null'),
]


@pytest.mark.parametrize("target", ["deepseek_v4"], indirect=True)
@pytest.mark.parametrize(("changes", "message"), KEYS)
def test_fields_of_the_wrong_type_are_named_as_in_the_file(
    target: Path, changes: dict[str, Any], message: str
) -> None:
    edit(target, **changes)
    refused(target, message)


@pytest.mark.parametrize("target", ["qwen3_next"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"hidden_act": "zzz"}, "config.json#/hidden_act"),
        (
            {"rope_parameters": {"rope_type": "zzz", "rope_theta": 1e4}},
            "config.json#/rope_parameters/rope_type",
        ),
    ],
)
def test_values_that_are_looked_up_in_vain(target: Path, changes: dict[str, Any], place: str) -> None:
    edit(target, **changes)
    refused(target, f"{place}: transformers cannot use it, found 'zzz', expected a value that it knows")


@pytest.mark.parametrize("target", ["qwen3_5"], indirect=True)
def test_other_refusals_name_the_config(target: Path) -> None:
    edit(target, model_type="zzz")
    refused(
        target, "target/config.json: transformers cannot use it (ValueError: ", "a config that it can build"
    )


@pytest.mark.parametrize(
    ("target", "nested", "changes"),
    [
        ("deepseek_v4", "", {"swiglu_limit": 10, "routed_scaling_factor": 2}),
        ("qwen3_5", "text_config", {"rms_norm_eps": 1}),
    ],
    indirect=["target"],
)
def test_whole_numbers_for_floats_are_the_same_numbers(
    target: Path, nested: str, changes: dict[str, Any]
) -> None:
    edit(target, nested, **changes)
    config = load(target).config.get_text_config(decoder=True)
    assert {name: getattr(config, name) for name in changes} == changes


def halve(*names: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: tensors[name][:-1] for name in names})


def drop(part: str) -> Callable[[Tensors], object]:
    return lambda tensors: [tensors.pop(name) for name in list(tensors) if part in name]


EXPERT = "model.layers.1.ffn.experts"
WEIGHTS: list[tuple[str, Callable[[Tensors], object], str]] = [
    ("qwen3_next", halve("lm_head.weight"), "#lm_head.weight: found shape [255, 128], expected [256, 128]"),
    ("deepseek_v4", halve("head.weight"), "#head.weight: found shape [255, 128], expected [256, 128]"),
    (
        "deepseek_v4",
        halve("model.layers.1.attn.wkv.weight", "model.layers.2.attn.wkv.weight"),
        "#model.layers.1.attn.wkv.weight: found shape [31, 128], expected [32, 128] (and 1 more tensor)",
    ),
    (
        "deepseek_v4",
        halve(*(f"{EXPERT}.{n}.w2.weight" for n in range(4))),
        f"#{EXPERT}.0.w2.weight: found shape [4, 127, 64] (with the 3 that are fused with it), expected "
        "[4, 128, 64]",
    ),
    (
        "deepseek_v4",
        drop("model.layers.1.attn.wkv"),
        ": no tensor model.layers.1.attn.wkv.weight, expected one of shape [32, 128]",
    ),
    (
        "deepseek_v4",
        drop(f"{EXPERT}.2.w1"),
        f": no tensor {EXPERT}.2.w1.weight, expected one as its neighbours have",
    ),
    (
        "qwen3_next",
        lambda tensors: tensors.update({"model.layers.9.junk": torch.ones(1)}),
        "#model.layers.9.junk: found a tensor that the target's config has no use for",
    ),
]


@pytest.mark.parametrize(("target", "change", "message"), WEIGHTS, indirect=["target"])
def test_weights_that_do_not_fit_are_named_as_in_the_file(
    target: Path, change: Callable[[Tensors], object], message: str
) -> None:
    restore(target, change)
    refused(target, f"{target}/model.safetensors{message}")


@pytest.mark.parametrize(
    ("target", "changes", "message"),
    [
        (
            "qwen3_next",
            {"linear_conv_kernel_dim": 10**9},
            "layers.0.linear_attn.conv1d.weight: found shape [256, 1, 4], expected [256, 1, 1000000000]",
        ),
        (
            "deepseek_v4",
            {"index_n_heads": 10**9},
            "target/config.json: found sizes that imply 2304001017523 values",
        ),
        (
            "qwen3_next",
            {"num_hidden_layers": 4096, "layer_types": None},
            "config.json#/num_hidden_layers: found 4096, expected layers for the",
        ),
    ],
    indirect=["target"],
)
def test_sizes_beyond_the_files_are_refused_before_they_are_allocated(
    target: Path, changes: dict[str, Any], message: str
) -> None:
    edit(target, **changes)
    refused(target, message)


@pytest.mark.parametrize("target", ["deepseek_v4"], indirect=True)
@pytest.mark.parametrize("name", ["model.layers.2.ffn.gate.bias", "model.layers.1.attn.wkv.weight"])
def test_no_value_of_a_target_is_nan(target: Path, name: str) -> None:
    """The router's bias is a buffer."""
    restore(target, lambda tensors: tensors[name].view(-1)[:1].fill_(float("nan")))
    refused(target, f"target#{name}: found NaN or infinite values")


def test_a_tokenizer_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"tokenizer\.json: transformers cannot use it .*, expected a tokenizer"
    ):
        load_tokenizer(tmp_path)
