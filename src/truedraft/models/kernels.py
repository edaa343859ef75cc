"""Which kernels compute a pair's products: torch's own, or those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import torch

from truedraft.contract import InputError
from truedraft.models.product import Kernels, Product

if TYPE_CHECKING:
    from truedraft.models.load import Pair

KernelChoice = Literal["auto", "torch", "onnxruntime"]

SMALLEST, LARGEST = 20_000_000, 1_000_000_000
"""Weights that `auto` packs: below, calls cost more than products; above, a second copy may not fit."""


def use_kernels(pair: Pair, choice: KernelChoice = "auto", threads: int | None = None) -> str:
    """Let a pair's products be computed by `choice`; returns the name of what computes them from now on.

    `auto`: ONNX Runtime where the extra `cpu` is installed and the products are in fp32 on the CPU and of a
    size that gains by it; else torch. `threads`: default torch's own number. ONNX Runtime keeps a copy of the
    weights as they are now. Raises `InputError` where `onnxruntime` is asked for and cannot be had; the pair
    is then on torch.
    """
    if choice not in get_args(KernelChoice):
        raise InputError(
            f"kernels: found {choice!r:.80}, expected one of {', '.join(get_args(KernelChoice))}"
        )
    own = pair.target.products()
    products = [*own, *pair.drafter.products()]
    for product in products:
        product.kernel = None
    fits = bool(own) and pair.target.dtype == torch.float32 and pair.target.device.type == "cpu"
    if choice == "torch" or (choice == "auto" and not (fits and SMALLEST <= _size(products) <= LARGEST)):
        return "torch"
    if not fits:
        kind = f"{str(pair.target.dtype).removeprefix('torch.')} on {pair.target.device.type}"
        layers = "" if own else ", in a forward of transformers' own"
        raise InputError(
            f"kernels onnxruntime: found weights of {kind}{layers}, expected float32 on cpu, fused"
        )
    try:
        _adopt(products, _onnx_kernels()(threads or torch.get_num_threads()))
    except InputError:
        if choice == "onnxruntime":
            raise
        return "torch"
    return "onnxruntime"


def _size(products: Sequence[Product]) -> int:
    """Weights of target and drafter; what both use counts once."""
    return sum({product.weight.data_ptr(): product.weight.numel() for product in products}.values())


def _onnx_kernels() -> Callable[[int], Kernels]:
    try:
        from truedraft.models.onnx_kernels import OnnxKernels
    except ImportError as error:
        raise InputError(
            f"kernels onnxruntime: needs onnxruntime and onnx ({error}): install the extra 'cpu'"
        ) from None
    return OnnxKernels


def _adopt(products: Sequence[Product], kernels: Kernels) -> None:
    """Give all products their kernels, or none."""
    with torch.inference_mode():
        made = [(product, kernels(product.weight)) for product in products]
        try:
            for product, kernel in made:
                product.adopt(kernel)
        except InputError:
            for product in products:
                product.kernel = None
            raise
