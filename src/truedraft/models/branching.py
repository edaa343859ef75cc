"""A block's law as a draft tree needs it: the most probable tokens behind a path of drafts.

DFlash's slots are independent: every path of one length has the same continuation. DSpark's Markov head makes
a slot's law depend on the token before it: `MarkovBranching` evaluates it behind the path itself, so that a
path's weight is its true probability under the drafter. What is expanded is kept: `vanilla` and `gated` heads
look at the last token only, so that paths of one length with the same last token share their continuation;
`rnn` heads look at the whole path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from truedraft.decode.tree import Branching, Ranked, ranked
from truedraft.models.readout import Readout

Path: TypeAlias = tuple[int, ...]


class SlotBranching:
    """Independent slots, from their `ranked` tokens."""

    def __init__(self, slots: Sequence[Ranked]) -> None:
        self._slots = slots

    def children(self, path: Path) -> Ranked:
        """The most probable tokens of the slot behind `path`."""
        return self._slots[len(path)]


class MarkovBranching:
    """Slots under a Markov head.

    `slots` [γ, H]: hidden states. `base` [γ, draft ids]: logits without the head. `anchor` [1]. `width`:
    tokens wanted per path.
    """

    def __init__(self, readout: Readout, slots: Tensor, base: Tensor, anchor: Tensor, width: int) -> None:
        assert readout.markov is not None
        self._readout, self._slots, self._base = readout, slots, base
        self._anchor, self._width = anchor, width
        self._follows = readout.contract["markov.previous"] == "previous_token"
        self._remembers = readout.markov.kind == "rnn"
        self._start = readout.markov.start(1)
        self._known: dict[Path, tuple[Ranked, Tensor]] = {}

    def children(self, path: Path) -> Ranked:
        """The most probable tokens behind `path`, under the law given `path`."""
        return self._expanded(path)[0]

    def _expanded(self, path: Path) -> tuple[Ranked, Tensor]:
        """The tokens behind `path`, and the head's state [1, r] behind their slot."""
        key = self._key(path)
        if key not in self._known:
            slot = len(path)
            state = self._expanded(path[:-1])[1] if path else self._start
            previous = self._anchor
            if path and self._follows:
                previous = torch.tensor([path[-1]], device=self._anchor.device)
            logits, state = self._readout.corrected(
                self._base[slot : slot + 1], previous, self._slots[slot : slot + 1], state
            )
            tokens = _as_targets(ranked(logits, self._width), self._readout.target_ids)[0]
            self._known[key] = tokens, state
        return self._known[key]

    def _key(self, path: Path) -> Path:
        """What of `path` the law behind it depends on: its length, and the tokens that the head looks at."""
        if not self._follows:
            return (len(path),)
        return (len(path), *(path if self._remembers else path[-1:]))


def branchings(readout: Readout, hidden: Tensor, anchors: Tensor, width: int, depth: int) -> list[Branching]:
    """The law of every block of hidden states [B, block width, H], behind the anchors [B].

    `width`: tokens per path. `depth`: slots that count.
    """
    slots = hidden[:, readout.first_slot : readout.first_slot + depth]
    logits = readout.logits(slots)
    if readout.markov is not None:
        return [
            MarkovBranching(readout, own, base, anchor, width)
            for own, base, anchor in zip(slots, logits, anchors[:, None], strict=True)
        ]
    return [SlotBranching(_as_targets(ranked(rows, width), readout.target_ids)) for rows in logits]


def _as_targets(rows: list[Ranked], target_ids: Tensor | None) -> list[Ranked]:
    if target_ids is None:
        return rows
    return [[(weight, int(target_ids[index])) for weight, index in row] for row in rows]
