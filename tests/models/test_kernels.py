"""Products by ONNX Runtime: torch's results, row by row, and nothing silently left out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from founding_models import small_model

from conftest import GOLDENS
from truedraft import Decoder, Pair, load_pair, resolve
from truedraft.contract import InputError
from truedraft.models import kernels
from truedraft.models.kernels import use_kernels
from truedraft.models.onnx_kernels import OnnxKernels
from truedraft.models.product import Product
from truedraft.models.stateful import StatefulTarget

SHAPES = [(96, 48), (1, 7), (513, 576), (64, 1536), (3072, 33)]


def rows(count: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
def test_a_row_depends_neither_on_its_neighbours_nor_on_their_number(outputs, inputs):
    kernel = OnnxKernels(1)(rows(outputs, inputs, 1))
    many = rows(17, inputs)
    together = kernel(many)
    for count in (1, 2, 3, 5, 8, 16):
        assert torch.equal(kernel(many[:count].contiguous()), together[:count])
    loud = many.clone()
    loud[1:] *= 1e6
    loud[2] = torch.nan
    assert torch.equal(kernel(loud)[0], together[0])


@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_product_is_torchs_own(outputs, inputs, bias):
    product = Product(rows(outputs, inputs, 1), rows(1, outputs, 2)[0] if bias else None)
    x = rows(6, inputs).view(2, 3, inputs)
    wanted = product(x)
    product.adopt(OnnxKernels(1)(product.weight))
    assert product.kernel is not None
    torch.testing.assert_close(product(x), wanted, rtol=1e-4, atol=1e-4)
    assert product(x).shape == (2, 3, outputs)
    assert product(x[:, :0]).shape == (2, 0, outputs)


def test_a_weight_that_is_not_contiguous_and_one_that_is_used_twice():
    stacked, made = rows(40, 16, 1), OnnxKernels(1)
    for weight in (stacked[8:24], stacked[:, ::2], stacked.T):
        x = rows(3, weight.shape[1])
        torch.testing.assert_close(made(weight)(x), F.linear(x, weight), rtol=1e-5, atol=1e-5)
    assert made(stacked) is made(stacked)
    assert made(stacked[:8]) is not made(stacked)


@pytest.mark.parametrize(
    "wrong", [lambda x: x[:, :4] * 2, lambda x: F.linear(x, torch.full((4, 8), torch.nan)), lambda x: x]
)
def test_a_kernel_that_computes_something_else_is_refused(wrong):
    product = Product(torch.eye(8)[:4])
    with pytest.raises(InputError, match=r"kernel of a weight \(4, 8\): found an error"):
        product.adopt(wrong)
    assert product.kernel is None


@cache
def reference() -> tuple[int, ...]:
    pair = fresh()
    return tuple(Decoder(pair.target, pair.drafter).generate([PROMPT], 40)[0].tokens)


def fresh(name: str = "dflash_trained", **changes: object) -> Pair:
    case = GOLDENS / name
    return load_pair(resolve(case / "target", case / "draft"), **changes)  # type: ignore[arg-type]


PROMPT = [5, 9, 17, 30, 2, 8]


def test_a_pair_decodes_alike_on_both_kernels():
    pair = fresh()
    assert use_kernels(pair, "onnxruntime", 1) == "onnxruntime"
    products = [*pair.target.products(), *pair.drafter.products()]
    layers = pair.contract.target.layers + pair.contract["backbone.layers"]
    assert len(products) == 4 * layers + 4  # both heads, fc, and the context's keys and values
    assert all(product.kernel is not None for product in products)
    for decoder in (Decoder(pair.target), Decoder(pair.target, pair.drafter)):
        assert tuple(decoder.generate([PROMPT], 40)[0].tokens) == reference()


def test_auto_leaves_small_models_to_torch_and_packs_large_ones(monkeypatch):
    pair = fresh()
    assert use_kernels(pair, "auto", 1) == "torch"
    assert all(product.kernel is None for product in pair.target.products())
    monkeypatch.setattr(kernels, "SMALLEST", 1)
    assert use_kernels(fresh(), "auto", 1) == "onnxruntime"
    monkeypatch.setattr(kernels, "LARGEST", 10)
    assert use_kernels(fresh(), "auto", 1) == "torch"


def test_without_the_packages_auto_takes_torch_and_a_wish_is_one_line(monkeypatch):
    monkeypatch.setattr(kernels, "SMALLEST", 1)
    monkeypatch.setattr(kernels, "find_spec", lambda name: None if name == "onnx" else object())
    assert use_kernels(fresh(), "auto", 1) == "torch"
    with pytest.raises(InputError, match="found no package onnx: install the extra 'cpu'"):
        use_kernels(fresh(), "onnxruntime", 1)


def test_weights_that_are_not_fp32(monkeypatch):
    monkeypatch.setattr(kernels, "SMALLEST", 1)
    assert use_kernels(fresh(dtype=torch.bfloat16), "auto", 1) == "torch"
    with pytest.raises(InputError, match="found weights of bfloat16 on cpu, expected float32 on cpu"):
        use_kernels(fresh(dtype=torch.bfloat16), "onnxruntime", 1)


def test_a_target_whose_own_forward_runs_is_refused(monkeypatch):
    pair = fresh()
    target = StatefulTarget(small_model("qwen3_5"), ())
    stateful = replace(pair, target=target)
    monkeypatch.setattr(kernels, "SMALLEST", 1)
    assert use_kernels(stateful, "auto", 1) == "torch"
    with pytest.raises(InputError, match="found a target whose forward is transformers' own"):
        use_kernels(stateful, "onnxruntime", 1)


def test_a_weight_beyond_one_message_and_other_threads():
    with pytest.raises(InputError, match=r"found a weight \(600000, 1024\) of 2457600000 bytes"):
        OnnxKernels(1)(torch.empty(1, 1).expand(600_000, 1024))
    OnnxKernels(1)
    with pytest.raises(InputError, match="threads: found 3, expected 1 as before in this process"):
        OnnxKernels(3)
