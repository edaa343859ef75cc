"""What decoding needs of a target and of a drafter. Knows no model family.

Rows are packed: B sequences share one [N] axis and sequence b owns rows `query_start[b]:query_start[b + 1]`.
B = 1 is not special. Row indices, lengths and positions live on the host, tensors on the model's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from truedraft.decode.drafts import Proposal
from truedraft.decode.sampling import GREEDY, Chance, Sampling


@dataclass(frozen=True)
class Batch:
    """Rows to run through a target.

    `tokens`, `positions`: int64 [N]. `query_start`: [B + 1]. `sequence_ids`: [B]. `parents`: [N] row indices
    within the own sequence's rows, -1 for a root; `None` when every sequence is a chain. A row sees all
    committed rows of its sequence, its ancestors and itself. `logit_rows`: packed rows whose logits are
    wanted; `None` for all.
    """

    tokens: Tensor
    positions: Tensor
    query_start: tuple[int, ...]
    sequence_ids: tuple[int, ...]
    parents: tuple[int, ...] | None = None
    logit_rows: Tensor | None = None

    def rows_of(self, index: int) -> slice:
        """The packed rows of the `index`-th sequence of this batch."""
        return slice(self.query_start[index], self.query_start[index + 1])


class Cache(Protocol):
    """State of all sequences of one model: KV, and recurrent or compressor state where there is any.

    A forward writes tentative rows after the committed ones. `commit` keeps those that form a path from
    the root, in order, and drops the rest.
    """

    def open(self) -> int:
        """Start an empty sequence; returns its id."""

    def close(self, sequence: int) -> None:
        """Forget a sequence and free its memory."""

    def length(self, sequence: int) -> int:
        """Committed rows of a sequence."""

    def commit(self, sequence: int, rows: Sequence[int]) -> None:
        """Keep the tentative rows `rows` (indices from 0, increasing), drop the other tentative rows."""


CacheT = TypeVar("CacheT", bound=Cache)


class Target(Protocol[CacheT]):
    """The model that verifies.

    `supports_trees`: its forward honours `Batch.parents`, and its cache keeps any path. State that follows
    one chain of rows (recurrent, compressed) does not, unless every node has its own.
    """

    max_positions: int
    stop_token_ids: frozenset[int]
    device: torch.device
    dtype: torch.dtype
    supports_trees: bool

    def new_cache(self) -> CacheT:
        """An empty cache for this model."""

    def forward(self, batch: Batch, cache: CacheT) -> tuple[Tensor, Tensor]:
        """Logits [N or len(logit_rows), V] in fp32 and taps [N, ΣH] (ΣH = 0 without a drafter)."""


@dataclass(frozen=True)
class Round:
    """One sequence's turn to draft.

    `taps` [n, ΣH], `tokens` [n], `next_tokens` [n]: the newly committed rows (features of token t, token t,
    token t + 1), at positions `first_position` … `first_position + n - 1`. The anchor is the last committed
    token, not yet run through the target; its position is `first_position + n` (n - 1 for a drafter that
    needs the anchor's features). `chance`: the sequence's own randomness, needed by sampled drafts only.
    """

    sequence: int
    taps: Tensor
    tokens: Tensor
    next_tokens: Tensor
    first_position: int
    anchor_token: Tensor
    anchor_position: int
    chance: Chance | None = None


class Drafter(Protocol[CacheT]):
    """The model that proposes. One `propose` takes in the new context rows and makes the drafts.

    `has_confidence`: proposals carry confidence. `needs_anchor_features`: the context
    includes the anchor's own row, which costs a target forward before each round (no published drafter is
    trained so; the axis `context.end` can ask for it).

    Afterwards the drafter's cache holds only rows from true features; proposing again without new rows
    gives the same q, and the same drafts if they are greedy.
    """

    proposals: int
    has_confidence: bool
    needs_anchor_features: bool

    def new_cache(self) -> CacheT:
        """An empty cache for this model."""

    def propose(self, rounds: Sequence[Round], cache: CacheT, sampling: Sampling = GREEDY) -> Proposal:
        """Drafts for every round, made by `Drafts`; the B rounds belong to different sequences."""


@runtime_checkable
class TreeDrafter(Protocol):
    """A `Drafter` that can also draft trees."""

    def propose_tree(self, rounds: Sequence[Round], cache: Any, budget: int, depth: int) -> Proposal:
        """A tree per round of at most `budget` nodes and `depth` drafts in a row; `parents` is set.

        Takes in context rows and leaves the cache as `propose` does.
        """


def ancestry(parents: Sequence[int]) -> Tensor:
    """Visibility among rows of a tree: bool [n, n], true where the column is the row itself or an ancestor.

    A parent precedes its children; -1 marks a root.
    """
    visible = torch.eye(len(parents), dtype=torch.bool)
    for row, parent in enumerate(parents):
        if parent >= row:
            raise ValueError(f"row {row} has parent {parent}, which does not precede it")
        if parent >= 0:
            visible[row] |= visible[parent]
    return visible
