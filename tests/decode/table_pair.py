"""A target and a drafter that are tables: laws by the last two tokens, and every handed row checked."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from truedraft.decode import (
    GREEDY,
    Batch,
    Drafts,
    Proposal,
    Round,
    Sampling,
    Tree,
    grow,
    propose_trees,
    ranked,
)
from truedraft.decode.tree import Ranked

Table = dict[tuple[int, int], list[float]]


def table(rng: random.Random, size: int, width: int | None = None, zeros: float = 0.1) -> Table:
    """Random logits after each pair of tokens; -1e4 stands for impossible."""
    return {
        (a, b): [-1e4 if rng.random() < zeros and i else rng.gauss(0, 1.3) for i in range(width or size)]
        for a in range(size)
        for b in range(size)
    }


def law_by_hand(logits: Sequence[float], sampling: Sampling) -> list[float]:
    """The law of a row of logits, in plain Python; `logits` without ties."""
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    if sampling.greedy:
        return [float(i == order[0]) for i in range(len(logits))]
    kept = order[: sampling.top_k or len(order)]
    mass = {i: math.exp((logits[i] - logits[order[0]]) / sampling.temperature) for i in kept}
    total, reached, nucleus = math.fsum(mass.values()), 0.0, []
    for i in kept:
        if reached >= sampling.top_p * total:
            break
        nucleus.append(i)
        reached += mass[i]
    return [mass[i] / reached if i in nucleus else 0.0 for i in range(len(logits))]


class TextCache:
    """The committed tokens of each sequence, and the tentative ones."""

    def __init__(self) -> None:
        self.texts: dict[int, list[int]] = {}
        self.tentative: dict[int, list[int]] = {}
        self._opened = 0

    def open(self) -> int:
        self.texts[self._opened], self.tentative[self._opened] = [], []
        self._opened += 1
        return self._opened - 1

    def close(self, sequence: int) -> None:
        del self.texts[sequence]

    def length(self, sequence: int) -> int:
        return len(self.texts[sequence])

    def commit(self, sequence: int, rows: Sequence[int]) -> None:
        self.texts[sequence] += [self.tentative[sequence][row] for row in rows]
        self.tentative[sequence] = []


class TableTarget:
    """Taps are the row's token and position, so that a drafter can tell whether its rows are right."""

    device = torch.device("cpu")
    dtype = torch.float32
    supports_trees = True

    def __init__(self, logits: Table, stop: frozenset[int] = frozenset(), max_positions: int = 99) -> None:
        self.logits = logits
        self.stop_token_ids = stop
        self.max_positions = max_positions

    def new_cache(self) -> TextCache:
        return TextCache()

    def forward(self, batch: Batch, cache: TextCache) -> tuple[Tensor, Tensor]:
        rows = []
        tokens, positions = batch.tokens.tolist(), batch.positions.tolist()
        for index, sequence in enumerate(batch.sequence_ids):
            own = batch.rows_of(index)
            committed = cache.texts[sequence]
            cache.tentative[sequence] = tokens[own]
            texts: dict[int, list[int]] = {-1: committed}
            for row, token in enumerate(tokens[own]):
                before = texts[row - 1 if batch.parents is None else batch.parents[own][row]]
                assert positions[own][row] == len(before) < self.max_positions
                texts[row] = [*before, token]
                rows.append(self.logits[([0, *before])[-1], token])
        logits = torch.tensor(rows, dtype=torch.float32)
        taps = torch.stack([batch.tokens, batch.positions], 1).float()
        return (logits if batch.logit_rows is None else logits[batch.logit_rows]), taps


class TableDrafter:
    """Drafts through `Drafts`; a draft's confidence depends on the two tokens before it."""

    has_confidence = True
    needs_anchor_features = False

    def __init__(self, logits: Table, proposals: int, target_ids: Sequence[int] | None = None) -> None:
        self.logits = logits
        self.proposals = proposals
        self._target_ids = None if target_ids is None else torch.tensor(target_ids)

    def new_cache(self) -> TextCache:
        return TextCache()

    def propose(self, rounds: Sequence[Round], cache: TextCache, sampling: Sampling = GREEDY) -> Proposal:
        recent = []
        for turn in rounds:
            text, new = cache.texts[turn.sequence], turn.tokens.tolist()
            assert turn.first_position == len(text)
            assert turn.taps.tolist() == [[token, len(text) + i] for i, token in enumerate(new)]
            assert turn.next_tokens.tolist() == [*new[1:], int(turn.anchor_token)]
            text += new
            assert turn.anchor_position == len(text)
            recent.append((text[-1], int(turn.anchor_token)))
        drafts = Drafts(sampling, [turn.chance for turn in rounds], self._target_ids)
        confidence = []
        for _ in range(self.proposals):
            confidence.append([0.9 if (2 * a + b) % 3 else 0.1 for a, b in recent])
            chosen = drafts.choose(torch.tensor([self.logits[pair] for pair in recent])).tolist()
            recent = [(b, token) for (_, b), token in zip(recent, chosen, strict=True)]
        return drafts.proposal(torch.tensor(confidence).T)


class TreeTableDrafter(TableDrafter):
    """Grows trees from its law, which depends on the two tokens before; or as told, whatever they are."""

    tree: Tree | None = None

    def propose_tree(self, rounds: Sequence[Round], cache: TextCache, budget: int, depth: int) -> Proposal:
        before = {turn.sequence: [*cache.texts[turn.sequence], *turn.tokens.tolist()] for turn in rounds}
        self.propose(rounds, cache)  # takes in and checks the context rows
        trees = []
        for turn in rounds:
            recent = (before[turn.sequence][-1], int(turn.anchor_token))
            grown = self.tree or grow(TableBranching(self.logits, recent, budget), budget, depth)
            trees.append(grown.within(depth))
        return propose_trees(trees, torch.device("cpu"))


class TableBranching:
    """A table's law behind two tokens."""

    def __init__(self, logits: Table, recent: tuple[int, int], width: int) -> None:
        self.logits, self.recent, self.width = logits, recent, width

    def children(self, path: tuple[int, ...]) -> Ranked:
        a, b = (*self.recent, *path)[-2:]
        return ranked(torch.tensor([self.logits[a, b]]), self.width)[0]


def targets_law(
    target: TableTarget, sampling: Sampling, prompt: Sequence[int], count: int
) -> dict[tuple[tuple[int, ...], str], float]:
    """The law of complete outputs and how they finish, by multiplication along every text."""
    out: dict[tuple[tuple[int, ...], str], float] = {}
    room = target.max_positions - len(prompt)

    def extend(tokens: tuple[int, ...], probability: float) -> None:
        if tokens and tokens[-1] in target.stop_token_ids:
            out[tokens, "stop"] = probability
        elif len(tokens) == min(count, room):
            out[tokens, "length" if count <= room else "context"] = probability
        else:
            recent = [0, *prompt, *tokens][-2:]
            row = torch.tensor(target.logits[recent[0], recent[1]]).tolist()  # fp32, as the target gives it
            for token, p in enumerate(law_by_hand(row, sampling)):
                if p:
                    extend((*tokens, token), probability * p)

    extend((), 1.0)
    return out
