"""Manifold-constrained hyper-connections: n residual streams, collapsed before a sublayer and mixed after it.

Formulas as in transformers' `DeepseekV4HyperConnection` and `DeepseekV4HyperHead`, and vLLM `kernels/mhc`.
With m = fn · x/rms(x), x the row's streams side by side, and three scales s and biases b:

    pre   = sigmoid(s0 m_pre + b_pre) + eps            weights of the sublayer's input
    post  = 2 sigmoid(s1 m_post + b_post)              shares of its output
    comb  = sinkhorn(softmax(s2 m_comb + b_comb))      comb[j, k]: share of old stream j in new stream k
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract


class HyperConnection:
    """The connection around one sublayer. `weights`: its tensors under `fn`, `base` and `scale`."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor]) -> None:
        self._streams: int = contract["stages.streams"]
        self._eps: float = contract["stages.mix_eps"]
        self._iterations: int = contract["stages.sinkhorn_iterations"]
        self._norm_eps: float = contract["backbone.norm_eps"]
        self._fn, self._base, self._scale = (weights[name].float() for name in ("fn", "base", "scale"))

    def collapse(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From streams [N, n, H] to the sublayer's input [N, H], post [N, n] and comb [N, n, n]."""
        n = self._streams
        mixes = _mixes(streams, self._fn, self._norm_eps)
        scale, base = self._scale, self._base
        pre = torch.sigmoid(mixes[:, :n] * scale[0] + base[:n]) + self._eps
        post = 2 * torch.sigmoid(mixes[:, n : 2 * n] * scale[1] + base[n : 2 * n])
        comb = (mixes[:, 2 * n :] * scale[2] + base[2 * n :]).view(-1, n, n)
        return _weighted(streams, pre), post, self._balanced(comb.softmax(-1) + self._eps)

    def spread(self, streams: Tensor, output: Tensor, post: Tensor, comb: Tensor) -> Tensor:
        """New streams [N, n, H] from the old ones and the sublayer's output [N, H]."""
        mixed = comb.mT.to(streams.dtype) @ streams
        return post.to(output.dtype)[:, :, None] * output[:, None] + mixed

    def _balanced(self, comb: Tensor) -> Tensor:
        """Sinkhorn-Knopp: columns once, then rows and columns in turn, until both nearly sum to 1."""
        comb = comb / (comb.sum(-2, keepdim=True) + self._eps)
        for _ in range(self._iterations - 1):
            comb = comb / (comb.sum(-1, keepdim=True) + self._eps)
            comb = comb / (comb.sum(-2, keepdim=True) + self._eps)
        return comb


class HyperHead:
    """The collapse of the streams after the last stage. `weights`: under `fn`, `base` and `scale`."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor]) -> None:
        self._eps: float = contract["stages.mix_eps"]
        self._norm_eps: float = contract["backbone.norm_eps"]
        self._fn, self._base, self._scale = (weights[name].float() for name in ("fn", "base", "scale"))

    def __call__(self, streams: Tensor) -> Tensor:
        """From streams [N, n, H] to [N, H]."""
        mixes = _mixes(streams, self._fn, self._norm_eps)
        return _weighted(streams, torch.sigmoid(mixes * self._scale[0] + self._base) + self._eps)


def _mixes(streams: Tensor, fn: Tensor, eps: float) -> Tensor:
    """[N, rows of fn], in fp32 whatever the streams are."""
    flat = streams.flatten(1).float()
    return F.linear(F.rms_norm(flat, flat.shape[1:], eps=eps), fn)


def _weighted(streams: Tensor, shares: Tensor) -> Tensor:
    return (streams * shares.to(streams.dtype)[:, :, None]).sum(1)
