"""Block inputs and greedy proposals of a drafter, for many anchors at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from drafters.stack import Drafter


def block_hidden(
    drafter: Drafter,
    table: Tensor,
    features: Tensor,
    anchors: Tensor,
    ids: Tensor,
    mask_id: int | None = None,
) -> Tensor:
    """Run blocks [anchor, mask, ...] and return the hidden rows of the proposing slots.

    features [b, n, taps * hidden]; anchors [b, a] positions; ids [b, a] anchor tokens;
    mask_id replaces the drafter's own.
    Returns [b, a, proposals, hidden]; row j proposes the token at anchor + j + 1.
    """
    filler = drafter.spec.mask_id if mask_id is None else mask_id
    block = torch.full((*ids.shape, drafter.spec.width), filler)
    block[..., 0] = ids
    hidden = drafter(features, anchors, F.embedding(block, table))
    # contiguous, else the product with the head is made block by block
    return hidden[..., drafter.spec.first_slot :, :].contiguous()


def corrected_logits(drafter: Drafter, base: Tensor, previous: Tensor) -> Tensor:
    """Add the Markov bias of the predecessors; base [..., vocab], previous [...] ids."""
    if not drafter.spec.markov_rank:
        return base
    head = drafter.markov_head
    return base + head.markov_w2(head.markov_w1(previous))


def confidence_logits(drafter: Drafter, hidden: Tensor, previous: Tensor) -> Tensor:
    """Return acceptance logits [...]; hidden [..., h], previous [...] ids."""
    joined = torch.cat((hidden, drafter.markov_head.markov_w1(previous)), -1)
    return drafter.confidence_head.proj(joined).squeeze(-1)


def propose(
    drafter: Drafter,
    table: Tensor,
    features: Tensor,
    anchors: Tensor,
    ids: Tensor,
    head: Tensor | None = None,
    mask_id: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draft greedily, left to right; head defaults to the (tied) embedding table.

    Returns tokens [b, a, proposals], their smallest top1-top2 logit gap [b, a] and the hidden
    rows [b, a, proposals, hidden].
    """
    hidden = block_hidden(drafter, table, features, anchors, ids, mask_id)
    base, previous = F.linear(hidden, table if head is None else head), ids
    tokens, gaps = [], []
    for slot in range(drafter.spec.proposals):
        top = corrected_logits(drafter, base[:, :, slot], previous).topk(2)
        previous = top.indices[..., 0]
        tokens.append(previous)
        gaps.append(top.values[..., 0] - top.values[..., 1])
    return torch.stack(tokens, -1), torch.stack(gaps, -1).amin(-1), hidden
