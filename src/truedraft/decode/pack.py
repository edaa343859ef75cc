"""Rounds as packed rows for the target: each sequence's anchor and its drafts, a chain or a tree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from truedraft.decode.protocols import Batch, Round
from truedraft.decode.tree import Tree


def row_positions(turn: Round, count: int) -> Tensor:
    """Positions [count] of a chain of rows that begins with the anchor."""
    start = turn.anchor_position
    return torch.arange(start, start + count, device=turn.anchor_token.device)


def pack_chains(
    rounds: Sequence[Round], sequence_ids: Sequence[int], drafts: Tensor, counts: Sequence[int]
) -> Batch:
    """Every round's anchor and the first `counts[b]` of its drafts [B, γ]."""
    rows = [torch.cat([turn.anchor_token.view(1), drafts[b, : counts[b]]]) for b, turn in enumerate(rounds)]
    return Batch(
        torch.cat(rows) if len(rows) > 1 else rows[0],
        torch.cat([row_positions(t, n + 1) for t, n in zip(rounds, counts, strict=True)]),
        tuple(accumulate((n + 1 for n in counts), initial=0)),
        tuple(sequence_ids),
    )


def pack_trees(rounds: Sequence[Round], sequence_ids: Sequence[int], trees: Sequence[Tree]) -> Batch:
    """Every round's anchor and the nodes of its tree, in order; a node stands at anchor + depth."""
    device = rounds[0].anchor_token.device
    tokens, positions, parents = [], [], []
    for turn, tree in zip(rounds, trees, strict=True):
        tokens += [turn.anchor_token.view(1), torch.tensor(tree.tokens, dtype=torch.int64, device=device)]
        positions += [turn.anchor_position + depth for depth in (0, *tree.depths)]
        parents += [-1, *(parent + 1 for parent in tree.parents)]
    return Batch(
        torch.cat(tokens),
        torch.tensor(positions, device=device),
        tuple(accumulate((len(tree.tokens) + 1 for tree in trees), initial=0)),
        tuple(sequence_ids),
        tuple(parents),
    )
