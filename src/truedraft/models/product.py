"""Products of rows with a fixed weight, and what else may compute them than torch.

A forward of a few rows costs what it takes to read its weights, and general-purpose kernels are far from that
for 2 to 8 rows, which is what verification runs (`docs/cpu-speed.md`). A kernel holds one weight in the form
that it likes best. Whoever runs a model asks for kernels (`models/kernels.py`); without them torch computes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import InputError

Kernel = Callable[[Tensor], Tensor]
"""x [N, in] -> x Wᵀ [N, out] for the weight it was made for; each row on its own, whatever the others."""

Kernels = Callable[[Tensor], Kernel]
"""Makes the kernel of a weight [out, in]."""

LARGEST_ERROR = 1e-4
"""Of a kernel against torch, relative to the largest output."""


class Product:
    """Rows x [..., in] to x Wᵀ + b [..., out]; weight [out, in], bias [out]."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias
        self.kernel: Kernel | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """The product, by the kernel if there is one."""
        if self.kernel is None:
            return F.linear(x, self.weight, self.bias)
        out = self.kernel(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], len(self.weight))
        return out if self.bias is None else out + self.bias

    def adopt(self, kernel: Kernel) -> None:
        """Compute with a kernel from now on; it stands for the weight's values of now.

        Raises `InputError` if it does not compute this product, or not each row on its own.
        """
        wave = torch.arange(3 * self.weight.shape[1], dtype=self.weight.dtype, device=self.weight.device)
        rows = (wave * 0.7 + 0.3).sin().view(3, -1)
        found, wanted = kernel(rows), F.linear(rows, self.weight)
        largest = float(wanted.abs().max()) if wanted.numel() else 0.0
        error = float((found - wanted).abs().max()) if found.shape == wanted.shape else torch.inf
        if not error <= LARGEST_ERROR * largest:  # NaN too
            raise InputError(
                f"kernel of a weight {tuple(self.weight.shape)}: found an error of {error:.1e} in outputs of "
                f"{largest:.1e}, expected at most {LARGEST_ERROR:.0e} of that"
            )
        if not torch.equal(kernel(rows[:1]), found[:1]):
            raise InputError(
                f"kernel of a weight {tuple(self.weight.shape)}: found another result for a row by itself, "
                "expected the same as among others"
            )
        self.kernel = kernel
