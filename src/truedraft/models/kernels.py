"""Which kernels compute a pair's products: torch's own, or those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import torch

from truedraft.contract import InputError
from truedraft.models.product import Product

if TYPE_CHECKING:
    from truedraft.models.load import Pair

KernelChoice = Literal["auto", "torch", "onnxruntime"]
PACKAGES = ("onnxruntime", "onnx")
"""The extra `cpu`."""

SMALLEST, LARGEST = 20_000_000, 1_000_000_000
"""Weights that `auto` packs: below, calls cost more than products; above, a second copy may not fit."""


def use_kernels(pair: Pair, choice: KernelChoice, threads: int | None = None) -> str:
    """Let a pair's products be computed by `choice`; returns the name of what computes them now.

    `auto`: ONNX Runtime where its packages are there and the products are in fp32 on the CPU and of a size
    that gains by it. `threads`: default torch's own number. Raises `InputError` where
    `onnxruntime` is asked for and cannot be had.
    """
    own = pair.target.products()
    products = [*own, *pair.drafter.products()] if own else []
    fp32 = pair.target.dtype == torch.float32 and pair.target.device.type == "cpu"
    if choice == "torch" or (choice == "auto" and not (fp32 and _worthwhile(products))):
        return "torch"
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(f"kernels onnxruntime: found no package {missing[0]}: install the extra 'cpu'")
    if not fp32:
        kind = f"{str(pair.target.dtype).removeprefix('torch.')} on {pair.target.device.type}"
        raise InputError(f"kernels onnxruntime: found weights of {kind}, expected float32 on cpu")
    if not products:
        raise InputError(
            "kernels onnxruntime: found a target whose forward is transformers' own, expected a dense one"
        )
    from truedraft.models.onnx_kernels import OnnxKernels

    kernels = OnnxKernels(threads or torch.get_num_threads())
    with torch.inference_mode():
        for product in products:
            product.adopt(kernels(product.weight))
    return "onnxruntime"


def _worthwhile(products: Iterable[Product]) -> bool:
    sizes = {product.weight.data_ptr(): product.weight.numel() for product in products}
    packages = all(find_spec(name) is not None for name in PACKAGES)
    return packages and SMALLEST <= sum(sizes.values()) <= LARGEST
