"""Replay: a drafter on known text, at many anchors at once, scored against the tokens that truly follow.

Teacher-forced: slot j is drafted behind the true tokens, whatever the slots before it chose. Greedily that
loses nothing: up to the first wrong draft the true tokens are the drafter's own, so the leading hits are the
accepted length of the free-running loop. And it gains the log-probability of every true token, also behind
the first wrong draft, which says far more per anchor than the accepted length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from truedraft.decode import Drafts, Round
from truedraft.probe.narrow import NarrowDrafter

FLOOR = -20.0
"""Log-probability below which slots count alike: a token that the draft vocabulary lacks has none at all."""

TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)
"""Temperatures at which the log-probability is taken. A wiring that merely blurs an overconfident drafter
raises it at 1; at each wiring's own best temperature that is no gain (Guo et al., arXiv 1706.04599)."""


@dataclass(frozen=True)
class Text:
    """Tokens whose rows from `start` on are what the target says, or what is taken for it."""

    tokens: tuple[int, ...]
    start: int

    def anchors(self, proposals: int) -> range:
        """Positions behind which `proposals` true tokens are known."""
        return range(max(self.start, 1), len(self.tokens) - proposals)


@dataclass(frozen=True)
class Scores:
    """What a drafter thinks of the true tokens at A anchors.

    `hits` bool [A, γ]: the draft is the true token; behind the first miss of a narrow head, the best of its
    ids is. `log_q` float32 [A, γ, temperatures]: the log-probability of the true token, at least `FLOOR`.
    """

    hits: NDArray[np.bool_]
    log_q: NDArray[np.float32]

    def accepted(self, slots: int) -> NDArray[np.int64]:
        """Drafts that greedy verification accepts at each anchor [A], of the first `slots`."""
        lengths: NDArray[np.int64] = np.cumprod(self.hits[:, :slots], 1).sum(1)
        return lengths


def joined(parts: Sequence[Scores]) -> Scores:
    """Scores of several passes, one behind the other."""
    return Scores(np.concatenate([p.hits for p in parts]), np.concatenate([p.log_q for p in parts]))


class _Forced(Drafts):
    """Chooses the true tokens [B, γ], and keeps what the drafter would have thought of them.

    `truth`: -1 behind a text's end, which is a miss whatever is drafted there.
    """

    def __init__(self, truth: Tensor, target_ids: Tensor | None, vocabulary: int) -> None:
        super().__init__()
        self._truth = truth
        self._index: Tensor | None = None
        if target_ids is not None:  # draft id of every target id, -1 for none
            self._index = torch.full((vocabulary,), -1, dtype=torch.int64, device=truth.device)
            self._index[target_ids] = torch.arange(len(target_ids), device=truth.device)
        self._hits: list[Tensor] = []
        self._log_q: list[Tensor] = []

    def choose(self, logits: Tensor) -> Tensor:
        """The true tokens [B] of the next slot, whatever its logits [B, draft ids]."""
        truth = self._truth[:, len(self._tokens)]
        self._keep(logits, truth)
        self._tokens.append(truth.clamp(min=0))
        return self._tokens[-1]

    def choose_all(self, logits: Tensor) -> Tensor:
        """The true tokens [B, γ], whatever the logits [B, γ, draft ids]."""
        for slot in range(logits.shape[1]):
            self.choose(logits[:, slot])
        return self._truth.clamp(min=0)

    def _keep(self, logits: Tensor, truth: Tensor) -> None:
        index = truth if self._index is None else self._index[truth.clamp(min=0)]
        missing = (index < 0) | (truth < 0)
        place = index.clamp(min=0)[:, None]
        log_q = _log_laws(logits, place).masked_fill(missing[:, None], FLOOR)
        self._log_q.append(log_q.nan_to_num(FLOOR).clamp(min=FLOOR))
        self._hits.append((logits.argmax(-1) == index) & ~missing)

    @property
    def hits(self) -> Tensor:
        """Whether the draft would have been the true token, bool [B, γ]."""
        return torch.stack(self._hits, 1)

    def scores(self, hits: Tensor) -> Scores:
        """What was kept, slot by slot, with these hits."""
        return Scores(hits.cpu().numpy(), torch.stack(self._log_q, 1).cpu().numpy())


def _log_laws(logits: Tensor, place: Tensor) -> Tensor:
    """Log-probability [B, temperatures] of the ids `place` [B, 1] under logits [B, V] at every temperature.

    As `log_softmax`, which would write all of it out once per temperature; over large vocabularies that takes
    as long as the head.
    """
    below = logits - logits.amax(-1, keepdim=True)
    own, powers, out = below.gather(1, place), torch.empty_like(below), []
    for temperature in TEMPERATURES:
        torch.mul(below, 1 / temperature, out=powers).exp_()
        out.append(own / temperature - powers.sum(-1, keepdim=True).log())
    return torch.cat(out, -1)


@dataclass(frozen=True)
class Task:
    """A text, increasing positions of it to draft at, and the features [len(tokens), ΣH] to draft from."""

    text: Text
    anchors: Sequence[int]
    taps: Tensor


ROWS_TOGETHER = 2048
ANCHORS_TOGETHER = 64
"""Context rows and anchors per pass, at most."""

MEMORY = 2**28


def score(
    drafter: Any, tasks: Sequence[Task], memory: int = MEMORY, ids: Tensor | None = None
) -> list[Scores]:
    """Scores of each task, with the true context rows before every anchor.

    `memory`: bytes that the anchors of one pass may take, each with a copy of its context rows and with its
    logits; one anchor always runs. Slots behind a text's end count as misses: compare those that
    `Text.anchors` allows. `ids`: target ids, int64, all of the tasks' among them, that a draft is known to be
    one of; log-probabilities are given that, acceptance is as without.
    """
    out: list[Scores] = []
    with torch.inference_mode():
        narrow = None if ids is None else NarrowDrafter(drafter, ids.to(drafter.device))
        for group in _groups(tasks):
            out += _scored(drafter, narrow, group, memory)
    return out


def _groups(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Neighbouring tasks whose contexts fit into one pass."""
    group: list[Task] = []
    rows = 0
    for task in tasks:
        if group and rows + max(task.anchors) > ROWS_TOGETHER:
            yield group
            group, rows = [], 0
        group.append(task)
        rows += max(task.anchors)
    if group:
        yield group


def _scored(whole: Any, narrow: NarrowDrafter | None, group: Sequence[Task], memory: int) -> list[Scores]:
    drafter = whole if narrow is None else narrow.drafter
    cache = drafter.new_cache()
    ahead = int(drafter.needs_anchor_features)
    contexts, forks, truth = [], [], []
    for task in group:
        ids = torch.tensor(task.text.tokens, device=drafter.device)
        known = F.pad(ids, (0, drafter.proposals), value=-1)
        end = max(task.anchors) + ahead
        whole = cache.open()
        contexts.append(Round(whole, task.taps[:end], ids[:end], ids[1 : end + 1], 0, ids[0], end))
        forks += [(whole, anchor, ids) for anchor in task.anchors]
        truth += [known[anchor + 1 : anchor + 1 + drafter.proposals] for anchor in task.anchors]
    drafter.extend(contexts, cache)
    together = _together(drafter, cache, contexts, memory)
    parts = []
    for begin in range(0, len(forks), together):
        rounds = [_fork(cache, *fork, ahead, group[0].taps) for fork in forks[begin : begin + together]]
        wanted = torch.stack(truth[begin : begin + together])
        forced = _Forced(wanted, drafter.target_ids, drafter.contract.target.vocab_size)
        drafter.draft(rounds, cache, forced)
        for turn in rounds:
            cache.close(turn.sequence)
        hits = forced.hits if narrow is None else narrow.checked(forced.hits, wanted, memory)
        parts.append(forced.scores(hits))
    return _split(joined(parts), [len(task.anchors) for task in group])


def _together(drafter: Any, cache: Any, contexts: Sequence[Round], memory: int) -> int:
    """Anchors per pass."""
    longest = max(contexts, key=lambda turn: turn.anchor_position)
    row = cache.keys(longest.sequence)[:, :, :1]
    context = 2 * row.numel() * row.element_size() * longest.anchor_position
    tables = drafter.proposals + 3  # logits of all slots; of one, with its Markov bias and in _log_laws
    logits = 4 * tables * len(drafter.head.weight)
    return int(min(max(memory // (context + logits), 1), ANCHORS_TOGETHER))


def _fork(cache: Any, whole: int, anchor: int, ids: Tensor, ahead: int, taps: Tensor) -> Round:
    rows = anchor + ahead
    copy = cache.fork(whole, rows)
    return Round(copy, taps[:0], ids[:0], ids[:0], rows, ids[anchor], anchor)


def _split(scores: Scores, counts: Sequence[int]) -> list[Scores]:
    out, begin = [], 0
    for count in counts:
        rows = slice(begin, begin + count)
        out.append(Scores(scores.hits[rows], scores.log_q[rows]))
        begin += count
    return out
