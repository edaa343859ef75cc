"""Products by ONNX Runtime: torch's results, row by row, and nothing silently left out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from founding_models import small_model

from conftest import GOLDENS, random_model
from truedraft import Decoder, Pair, load_pair, resolve
from truedraft.contract import InputError
from truedraft.models import kernels
from truedraft.models.kernels import use_kernels
from truedraft.models.onnx_kernels import OnnxKernels
from truedraft.models.product import Product
from truedraft.models.stateful import StatefulTarget
from truedraft.models.target import HFTarget

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


def test_a_kernel_stays_its_weights_own_when_others_are_freed():
    made = OnnxKernels(1)
    for seed in range(20):
        weight, x = rows(96, 96, seed), rows(2, 96)
        torch.testing.assert_close(made(weight)(x), F.linear(x, weight), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(made(weight.T)(x), x @ weight, rtol=1e-4, atol=1e-4)
        del weight


def test_parameters_and_rows_that_ask_for_gradients():
    weight = torch.nn.Parameter(rows(4, 8))
    x = rows(2, 8).requires_grad_()
    torch.testing.assert_close(OnnxKernels(1)(weight)(x), F.linear(x, weight).detach())


def lonely(x: torch.Tensor) -> torch.Tensor:
    """The identity's product, a little off for a single row."""
    return x[:, :4] + 1e-7 * (len(x) == 1)


@pytest.mark.parametrize(
    "wrong",
    [lambda x: x[:, :4] * 2, lambda x: F.linear(x, torch.full((4, 8), torch.nan)), lambda x: x, lonely],
)
def test_a_kernel_that_computes_something_else_is_refused(wrong):
    product = Product(torch.eye(8)[:4])
    with pytest.raises(InputError, match=r"kernel of a weight \(4, 8\): found an"):
        product.adopt(wrong)
    assert product.kernel is None


def test_a_kernel_of_tiny_weights_is_looked_at_just_as_closely():
    product = Product(torch.eye(8)[:4] * 1e-12)
    with pytest.raises(InputError, match="found an error of"):
        product.adopt(lambda x: x[:, :4] * 2e-12)


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


def test_back_to_torch():
    pair = fresh()
    use_kernels(pair, "onnxruntime", 1)
    for choice in ("torch", "auto"):
        use_kernels(pair, "onnxruntime", 1)
        assert use_kernels(pair, choice) == "torch"
        assert all(p.kernel is None for p in (*pair.target.products(), *pair.drafter.products()))


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_a_package_auto_takes_torch_and_a_wish_is_one_line(monkeypatch, package):
    monkeypatch.setattr(kernels, "SMALLEST", 1)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "truedraft.models.onnx_kernels")
    assert use_kernels(fresh(), "auto", 1) == "torch"
    with pytest.raises(InputError, match=f"needs onnxruntime and onnx .*{package}.*install the extra 'cpu'"):
        use_kernels(fresh(), "onnxruntime", 1)


def test_a_failure_on_the_way_leaves_the_pair_on_torch(monkeypatch):
    class Failing(OnnxKernels):
        def __call__(self, weight):
            made = super().__call__(weight)
            return made if len(self._kernels) < 5 else lambda x: 2 * made(x)

    monkeypatch.setattr(kernels, "SMALLEST", 1)
    monkeypatch.setattr(kernels, "_onnx_kernels", lambda: Failing)
    pair = fresh()
    with pytest.raises(InputError, match="found an error of"):
        use_kernels(pair, "onnxruntime", 1)
    assert use_kernels(pair, "auto", 1) == "torch"
    assert all(p.kernel is None for p in (*pair.target.products(), *pair.drafter.products()))


def test_an_unknown_choice():
    with pytest.raises(InputError, match="kernels: found 'mkl', expected one of auto, torch, onnxruntime"):
        use_kernels(fresh(), "mkl")


def test_weights_that_are_not_fp32(monkeypatch):
    monkeypatch.setattr(kernels, "SMALLEST", 1)
    assert use_kernels(fresh(dtype=torch.bfloat16), "auto", 1) == "torch"
    with pytest.raises(InputError, match=r"found weights of bfloat16 on cpu.*, expected float32 on cpu"):
        use_kernels(fresh(dtype=torch.bfloat16), "onnxruntime", 1)


def test_a_target_whose_own_forward_runs_is_refused(monkeypatch):
    pair = fresh()
    target = StatefulTarget(small_model("qwen3_5"), ())
    stateful = replace(pair, target=target)
    monkeypatch.setattr(kernels, "SMALLEST", 1)
    assert use_kernels(stateful, "auto", 1) == "torch"
    with pytest.raises(InputError, match="in a forward of transformers' own, expected"):
        use_kernels(stateful, "onnxruntime", 1)


class Negated(torch.nn.Module):
    """A head around a head, as adapters make them."""

    def __init__(self, inner: torch.nn.Linear) -> None:
        super().__init__()
        self.inner = inner

    @property
    def weight(self) -> torch.Tensor:
        return self.inner.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -self.inner(x)


@pytest.mark.parametrize("fused", [False, True])
def test_a_wrapped_head_is_called_and_not_read(fused):
    from transformers import LlamaForCausalLM

    given = random_model("llama")
    model = LlamaForCausalLM(given.config).eval()
    model.load_state_dict(given.state_dict())
    plain = Decoder(HFTarget(model, (), fused=fused)).generate([PROMPT], 4)[0].tokens
    model.lm_head = Negated(model.lm_head)
    target = HFTarget(model, (), fused=fused)
    assert Decoder(target).generate([PROMPT], 4)[0].tokens != plain
    assert len(target.products()) == (16 if fused else 0)


def test_threads():
    for threads in (0, -1):
        with pytest.raises(InputError, match=f"threads: found {threads}, expected at least 1"):
            OnnxKernels(threads)


SEVERAL = """
import torch
from truedraft.contract import InputError
from truedraft.models.onnx_kernels import OnnxKernels
x, w = torch.randn(9, 576), torch.randn(700, 576)
one, two = OnnxKernels(1)(w), OnnxKernels(2)(w)
together = two(x)
assert torch.equal(together, one(x))
assert all(torch.equal(two(x[:n].contiguous()), together[:n]) for n in range(1, 10))
assert torch.equal(OnnxKernels(2)(w)(x), together)
for threads in (3, 1):
    try:
        OnnxKernels(threads)
    except InputError as error:
        print(error)
"""


def test_several_threads_share_a_pool_of_one_size():
    done = subprocess.run([sys.executable, "-c", SEVERAL], capture_output=True, text=True, timeout=300)
    refused = [f"threads: found {threads}, expected 2 as before in this process" for threads in (3, 1)]
    assert done.stdout.splitlines() == refused, done.stderr
