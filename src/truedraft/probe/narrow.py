"""A drafter with a narrow head: as good for comparing wirings, at a fraction of the cost.

Over a large vocabulary most of a replay is the output head. Wirings can be compared just as well by the
law of the drafts given that they are among some thousand ids: all ids of the texts, and others from all over
the vocabulary. Acceptance stays that over the whole vocabulary: a draft that is not the best of a few ids is
not the best of all, so that only hits, and only up to a block's first miss, have to be held against the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.models import BlockDrafter, ChainDrafter
from truedraft.models.head import Head
from truedraft.models.product import Product
from truedraft.models.readout import Readout
from truedraft.models.sequence_head import MarkovHead

FEWEST = 4096
"""Ids beside which those of the texts are compared."""

GAIN = 4
"""How many times larger a vocabulary must be for a narrow head to be worth it."""


def few_ids(texts: Iterable[Iterable[int]], vocabulary: int) -> Tensor | None:
    """All ids of the texts and `FEWEST` others, evenly spread, int64, sorted; `None` if that saves little."""
    spread = torch.linspace(0, vocabulary - 1, min(FEWEST, vocabulary)).long()
    ids = sorted({token for text in texts for token in text} | set(spread.tolist()))
    return torch.tensor(ids) if len(ids) * GAIN <= vocabulary else None


class NarrowDrafter:
    """`drafter`: the given one over `ids` (target ids, int64), whose rounds `checked` makes exact."""

    def __init__(self, drafter: BlockDrafter | ChainDrafter, ids: Tensor) -> None:
        head: Head = drafter.head
        self._head: Any = head
        self._markov = _markov(head)
        own = head.target_ids
        rows = ids[ids < len(head.weight)] if own is None else torch.isin(own, ids).nonzero()[:, 0]
        self.drafter: Any = drafter.narrowed(rows)
        self._inputs = _Record(self.drafter.head.product)
        markov = _markov(self.drafter.head)
        self._biases = None if markov is None else _Record(markov.output)

    def checked(self, hits: Tensor, truth: Tensor, memory: int) -> Tensor:
        """Hits [B, γ] of the last round, up to each block's first miss as the whole head would have them.

        `truth`: target ids [B, γ]. `memory`: bytes for the whole head's logits, at least one row of them.
        """
        count, proposals = hits.shape
        inputs = self._inputs.slots(count, proposals)
        biases = None if self._biases is None else self._biases.slots(count, proposals)
        out = hits.clone()
        together = max(memory // (12 * len(self._head.weight)), 1)  # of 4 bytes: products, biases, their sum
        for slot in range(proposals):
            leading = out[:, : slot + 1].all(1).nonzero()[:, 0]
            for places in torch.split(leading, together):
                given = None if biases is None else biases[slot][places]
                best = self._best(inputs[slot][places], given)
                out[places, slot] = best == truth[places, slot]
        return out

    def _best(self, inputs: Tensor, bias: Tensor | None) -> Tensor:
        """Target ids [n] that the whole head likes best; `inputs`, `bias`: of what products are taken."""
        logits = self._head.scaled(self._head.product(inputs))
        if self._markov is not None and bias is not None:
            logits = self._head.biased(logits, self._markov.output(bias))
        best: Tensor = logits.argmax(-1)
        return best if self._head.target_ids is None else self._head.target_ids[best]


def _markov(head: Head) -> MarkovHead | None:
    return head.markov if isinstance(head, Readout) else None


class _Record:
    """Keeps what a product is computed of, in order."""

    def __init__(self, product: Product) -> None:
        self._weight = product.weight
        self._seen: list[Tensor] = []
        product.kernel = self

    def __call__(self, x: Tensor) -> Tensor:
        self._seen.append(x)
        return F.linear(x, self._weight)

    def slots(self, count: int, proposals: int) -> Tensor:
        """What was kept since the last call, [γ, B, in]: all slots were computed at once, or one by one."""
        seen, self._seen = self._seen, []
        if len(seen) == 1:
            return seen[0].view(count, proposals, -1).transpose(0, 1)
        return torch.stack(seen)
