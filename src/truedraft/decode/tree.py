"""Draft trees: which continuations of the anchor one target pass verifies together.

A node is a drafted token behind its parent, or behind the anchor; a path from the anchor is one
continuation. `grow` chooses the nodes as DDTree does (arXiv 2604.12989): of all prefixes, the `budget` most
probable under the drafter. If the target had the drafter's law, the sum of the nodes' probabilities would be
the expected accepted depth: no tree of that size has a larger one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from truedraft.decode.drafts import Proposal, require_finite

Ranked = Sequence[tuple[float, int]]
"""(log probability, token), most probable first."""


@dataclass(frozen=True)
class Tree:
    """One round's draft tree. `tokens`: [n] target ids. `parents`: [n] node indices, -1 for the anchor.

    A parent precedes its children.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError(f"found {len(self.parents)} parents, expected {len(self.tokens)}, one per node")
        for node, parent in enumerate(self.parents):
            if not -1 <= parent < node:
                raise ValueError(f"node {node} has parent {parent}, expected -1 or an earlier node")

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """[n] Drafts on the path to each node, itself included: 1 for the anchor's children."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    @property
    def depth(self) -> int:
        """The deepest node's depth; 0 for an empty tree."""
        return max(self.depths, default=0)

    def within(self, depth: int) -> Tree:
        """The tree without the nodes that are deeper than `depth`."""
        if self.depth <= depth:
            return self
        kept = [node for node, own in enumerate(self.depths) if own <= depth]
        index = {-1: -1} | {node: new for new, node in enumerate(kept)}
        return Tree(
            tuple(self.tokens[node] for node in kept), tuple(index[self.parents[node]] for node in kept)
        )


def propose_trees(trees: Sequence[Tree], device: torch.device) -> Proposal:
    """The proposal of one tree per round."""
    width = max(len(tree.tokens) for tree in trees)
    padded = [(*tree.tokens, *(0,) * (width - len(tree.tokens))) for tree in trees]
    tokens = torch.tensor(padded, dtype=torch.int64, device=device)
    lengths = tuple(len(tree.tokens) for tree in trees)
    return Proposal(tokens, lengths, parents=tuple(tree.parents for tree in trees))


def proposed_trees(proposal: Proposal) -> list[Tree]:
    """The trees of a proposal, one per round."""
    if proposal.parents is None:
        raise ValueError("found a proposal of chains, expected trees")
    rows = zip(proposal.tokens.tolist(), proposal.lengths, proposal.parents, strict=True)
    return [Tree(tuple(tokens[:count]), parents) for tokens, count, parents in rows]


class Branching(Protocol):
    """A drafter's law of one round's drafts, token by token."""

    def children(self, path: tuple[int, ...]) -> Ranked:
        """The most probable tokens behind the drafts `path`, equal ones in a fixed order."""


def grow(branching: Branching, budget: int, depth: int) -> Tree:
    """The tree of the `budget` most probable prefixes of at most `depth` drafts, most probable first.

    The probability of a prefix is the product of its tokens' own, each given the tokens before it: exact
    under the drafter's law, whether slots are independent (DFlash) or not (DSpark). Equally probable prefixes
    are ordered by their tokens' ranks. `children` is asked for at most `budget` paths; it must give `budget`
    tokens where there are so many. Impossible tokens (log probability -inf) are left out, so that a tree can
    have fewer nodes. `budget`, `depth` >= 1.
    """
    tokens: list[int] = []
    parents: list[int] = []
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    weights = {-1: 0.0}
    children = {-1: branching.children(())}
    # Neither move, to the next sibling or to the first child, raises the weight or lowers the ranks: nodes
    # leave the heap in the order of all prefixes by (weight, ranks).
    heap: list[tuple[float, tuple[int, ...], int]] = []

    def offer(parent: int, ranks: tuple[int, ...]) -> None:
        options, rank = children[parent], ranks[-1]
        if rank < len(options) and options[rank][0] > -math.inf:
            heapq.heappush(heap, (-(weights[parent] + options[rank][0]), ranks, parent))

    offer(-1, (0,))
    while heap and len(tokens) < budget:
        weight, ranks, parent = heapq.heappop(heap)
        node, token = len(tokens), children[parent][ranks[-1]][1]
        tokens.append(token)
        parents.append(parent)
        offer(parent, (*ranks[:-1], ranks[-1] + 1))
        if len(ranks) < depth and len(tokens) < budget:
            weights[node], paths[node] = -weight, (*paths[parent], token)
            children[node] = branching.children(paths[node])
            offer(node, (*ranks, 0))
    return Tree(tuple(tokens), tuple(parents))


def ranked(logits: Tensor, count: int) -> list[Ranked]:
    """The `count` most probable ids of each row of logits [n, ids], by fp32 log softmax; equal ones by id.

    Raises `InputError` for NaN or infinite logits.
    """
    require_finite(logits)
    logs = logits.float().log_softmax(-1)
    count = min(count, logs.shape[-1])
    least = logs.topk(count).values[:, -1:]  # topk may take any of equal ones: what it leaves out is put back
    out: list[Ranked] = []
    for row, bound in zip(logs, least, strict=True):
        ids = (row >= bound).nonzero()[:, 0]
        values, order = row[ids].sort(descending=True, stable=True)
        out.append(list(zip(values[:count].tolist(), ids[order[:count]].tolist(), strict=True)))
    return out
