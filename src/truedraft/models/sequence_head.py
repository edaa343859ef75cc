"""Sequence heads: DSpark's Markov heads, which bias each slot's logits by the token before it.

Source of the formulas: DeepSpec, `modeling/dspark/markov_head.py`, and arXiv 2607.05147. Per slot, with
e = W1[previous token] [r], h = the slot's hidden state [d], s = recurrent state [r]:

    vanilla  bias = W2 e
    gated    bias = W2 (sigmoid(G [h; e] + b) * e)
    rnn      (gate, candidate, out) = J [s; e; h] + b;  bias = W2 tanh(out)
             s <- sigmoid(gate) * s + (1 - sigmoid(gate)) * tanh(candidate), s = 0 before slot 0
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.models.product import Product

GATE = ("markov_head.gate_proj.weight", "markov_head.gate_proj.bias")
JOINT = ("markov_head.joint_proj.weight", "markov_head.joint_proj.bias")


class MarkovHead:
    """One Markov head of kind `vanilla`, `gated` or `rnn`."""

    def __init__(self, kind: str, weights: Mapping[str, Tensor]) -> None:
        self.kind = kind
        self.embedding = weights["markov_head.markov_w1.weight"]  # [V, r]
        self.output = Product(weights["markov_head.markov_w2.weight"])  # [V, r]
        self.rank = self.embedding.shape[1]
        names = {"gated": GATE, "rnn": JOINT}.get(kind)
        self._weight: Tensor | None = weights[names[0]] if names else None
        self._bias: Tensor | None = weights[names[1]] if names else None

    def start(self, rows: int) -> Tensor:
        """Recurrent state before the first slot: zeros [rows, r]."""
        return self.embedding.new_zeros(rows, self.rank)

    def bias(self, previous: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Bias [rows, V] and next state, from previous tokens [rows], hidden [rows, d], state [rows, r]."""
        embedded = self.embedding[previous]
        if self.kind == "gated":
            assert self._weight is not None
            gate = F.linear(torch.cat([hidden, embedded], -1), self._weight, self._bias)
            embedded = torch.sigmoid(gate) * embedded
        elif self.kind == "rnn":
            assert self._weight is not None
            joint = F.linear(torch.cat([state, embedded, hidden], -1), self._weight, self._bias)
            gate, candidate, out = joint.chunk(3, -1)
            keep = torch.sigmoid(gate)
            state = keep * state + (1 - keep) * torch.tanh(candidate)
            embedded = torch.tanh(out)
        return self.output(embedded), state

    def narrowed(self, rows: Tensor) -> MarkovHead:
        """The same head with the bias of some draft ids, int64 [n], only."""
        twin = copy(self)
        twin.output = Product(self.output.weight[rows])
        return twin
