"""From the target's tapped states to one feature per position: the axes `fusion.*`.

feature = output_norm(fc(concat_norm([tap_norm_0(h_0); …; tap_norm_n(h_n)]))), each norm an RMS norm that a
contract may lack. DFlash and DSpark have the output norm only, EAGLE-3 plain `fc` or one of the inner norms.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract
from truedraft.models.product import Product


class Fusion:
    """Maps concatenated taps [n, ΣH] to features [n, H]. `weights`: canonical names to tensors."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor]) -> None:
        self._eps: float = contract["backbone.norm_eps"]
        self.product = Product(weights["fc.weight"])
        taps = len(contract["taps.layers"]) if contract["fusion.tap_norm"] else 0
        self._tap_norms = [weights[f"fc_norm.{i}.weight"] for i in range(taps)]
        self._concat_norm = weights["input_norm.weight"] if contract["fusion.concat_norm"] else None
        self._output_norm = weights["hidden_norm.weight"] if contract["fusion.output_norm"] else None

    def __call__(self, taps: Tensor) -> Tensor:
        """Features of rows."""
        return self.finish(self.project(taps))

    def project(self, taps: Tensor) -> Tensor:
        """What `fc` makes of taps [n, ΣH], behind the inner norms and before the output norm: [n, H]."""
        if self._tap_norms:
            parts = zip(taps.chunk(len(self._tap_norms), -1), self._tap_norms, strict=True)
            taps = torch.cat([self._norm(part, weight) for part, weight in parts], -1)
        if self._concat_norm is not None:
            taps = self._norm(taps, self._concat_norm)
        return self.product(taps)

    def finish(self, features: Tensor) -> Tensor:
        """Features [n, H] behind the output norm, if there is one."""
        return features if self._output_norm is None else self._norm(features, self._output_norm)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)
