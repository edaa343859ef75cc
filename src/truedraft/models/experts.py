"""A mixture of experts as in DeepSeek-V4: a scored choice of routed experts, and one that all rows pass.

    score = sqrt(softplus(G x));  chosen = the k largest of score + bias
    y = scaling * Σ score_e / Σ score * E_e(x) + S(x);  E(x) = W2 (silu(min(W1 x, c)) * clamp(W3 x, -c, c))

Formulas as in transformers' `DeepseekV4TopKRouter` and `DeepseekV4Experts`; a bias steers the choice only.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract


class Experts:
    """The experts of one stage. `weights`: the stage's tensors below `ffn.`."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor]) -> None:
        self._chosen: int = contract["stages.experts_per_token"]
        self._scaling: float = contract["stages.routed_scaling"]
        self._limit: float | None = contract["stages.swiglu_limit"]
        self._gate = weights["gate.weight"].float()
        self._bias = weights["gate.bias"].float() if contract["stages.router_bias"] else None
        names = [f"experts.{number}" for number in range(contract["stages.experts"])]
        self._routed = [_matrices(weights, name) for name in names]
        self._shared = _matrices(weights, "shared_experts") if contract["stages.shared_experts"] else None

    def __call__(self, x: Tensor) -> Tensor:
        """Rows [N, H] of normed rows [N, H]."""
        chosen, shares = self._route(x)
        out = torch.zeros_like(x) if self._shared is None else self._expert(x, *self._shared)
        for number in sorted(set(chosen.flatten().tolist())):
            rows, slots = (chosen == number).nonzero(as_tuple=True)
            part = self._expert(x[rows], *self._routed[number])
            out = out.index_add(0, rows, part * shares[rows, slots, None])
        return out

    def _route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Experts of each row [N, k] and their shares [N, k]."""
        scores = F.softplus(F.linear(x.float(), self._gate)).sqrt()
        ranked = scores if self._bias is None else scores + self._bias
        chosen = ranked.topk(self._chosen, -1).indices
        shares = scores.gather(-1, chosen)
        return chosen, (shares / shares.sum(-1, keepdim=True) * self._scaling).to(x.dtype)

    def _expert(self, x: Tensor, gate: Tensor, down: Tensor, up: Tensor) -> Tensor:
        opened, carried = F.linear(x, gate), F.linear(x, up)
        if self._limit is not None:
            opened, carried = opened.clamp(max=self._limit), carried.clamp(-self._limit, self._limit)
        return F.linear(F.silu(opened) * carried, down)


def _matrices(weights: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor, Tensor]:
    return weights[f"{name}.w1.weight"], weights[f"{name}.w2.weight"], weights[f"{name}.w3.weight"]
