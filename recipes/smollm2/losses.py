"""The loss of one answer's blocks over a part of the vocabulary, and tokens per round over all of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from data import Answer, Statistics
from drafters.drafting import block_hidden, confidence_logits, propose
from drafters.stack import Drafter

DECAY = 4.0
HARD = 0.5
"""Share of the cross entropy on the answer; the rest is on the target's distribution."""


@dataclass(frozen=True)
class Tables:
    """The target's frozen embedding (and head) [V, hidden] and final norm, and the statistics."""

    embedding: Tensor
    norm: Tensor
    norm_eps: float
    statistics: Statistics

    def final(self, rows: Tensor) -> Tensor:
        """The final norm of residual streams [..., hidden]."""
        return F.rms_norm(rows, self.norm.shape, self.norm, self.norm_eps)


@dataclass(frozen=True)
class Blocks:
    """Blocks of one answer: `previous`, `following` ids and `weights` [a, proposals], zero past the end."""

    answer: Answer
    anchors: Tensor
    previous: Tensor
    following: Tensor
    weights: Tensor


def blocks_at(answer: Answer, anchors: Tensor, proposals: int) -> Blocks:
    """Blocks that begin at anchors [a]; slot j proposes the token at anchor + j + 1."""
    slots = torch.arange(proposals)
    places, last = anchors[:, None] + slots, len(answer.ids) - 1
    weights = (places < last) * torch.exp(-slots / DECAY)
    return Blocks(
        answer,
        anchors,
        answer.ids[places.clamp(max=last)],
        answer.ids[(places + 1).clamp(max=last)],
        weights,
    )


def active_ids(statistics: Statistics, blocks: list[Blocks], sampled: Tensor) -> Tensor:
    """Ids that a step scores: the frequent ones, its labels, and sampled others."""
    labels = [block.following.flatten() for block in blocks]
    return torch.cat([statistics.frequent, *labels, sampled]).unique()


def block_loss(drafter: Drafter, tables: Tables, blocks: Blocks, ids: Tensor, mixed: bool) -> Tensor:
    """Weighted sum of losses over the ids that are scored.

    Half cross entropy on the answer, which is the target's argmax, and half on the target's distribution.
    DSpark adds the confidence's cross entropy and, when `mixed`, takes the paper's 0.1 CE + 0.9 L1 instead.
    """
    rows = blocks.answer.features()
    taps, hidden_size = len(drafter.spec.taps), drafter.spec.shape.hidden
    features = rows[None, :, : taps * hidden_size] / tables.statistics.scale
    anchors, previous = blocks.anchors[None], blocks.previous[None]
    hidden = block_hidden(drafter, tables.embedding, features, anchors, previous[..., 0])
    head = tables.embedding[ids]
    logits = F.linear(hidden, head)
    if drafter.spec.markov_rank:
        markov = drafter.markov_head
        logits = logits + F.linear(markov.markov_w1(previous), markov.markov_w2.weight[ids])
    wanted = _target_law(rows[:, taps * hidden_size :], tables, blocks, head)
    log_law = logits[0].log_softmax(-1)
    labels = torch.searchsorted(ids, blocks.following)[..., None]
    hard = -log_law.gather(-1, labels)[..., 0]
    loss = HARD * hard - (1 - HARD) * (wanted * log_law).sum(-1)
    if drafter.spec.family == "dspark":
        distance = (log_law.exp() - wanted).abs().sum(-1)
        if mixed:
            loss = 0.1 * hard + 0.9 * distance
        sure = confidence_logits(drafter, hidden, previous)[0]
        label = (1 - 0.5 * distance).detach().clamp(0, 1)
        loss = loss + F.binary_cross_entropy_with_logits(sure, label, reduction="none")
    return (loss * blocks.weights).sum()


@torch.no_grad()
def _target_law(last_layer: Tensor, tables: Tables, blocks: Blocks, head: Tensor) -> Tensor:
    """The target's distribution [a, proposals, ids] over the ids of `head`, at the blocks' slots."""
    places = blocks.anchors[:, None] + torch.arange(blocks.following.shape[1])
    rows = last_layer[places.clamp(max=len(last_layer) - 1)]
    return F.linear(tables.final(rows), head).softmax(-1)


@torch.no_grad()
def tokens_per_round(drafter: Drafter, tables: Tables, blocks: Blocks) -> Tensor:
    """Tokens per round [a] of greedy drafts over the whole vocabulary, by the answer's own tokens."""
    width = len(drafter.spec.taps) * drafter.spec.shape.hidden
    features = blocks.answer.features()[None, :, :width] / tables.statistics.scale
    tokens, _, _ = propose(
        drafter, tables.embedding, features, blocks.anchors[None], blocks.previous[None, :, 0]
    )
    right = (tokens[0] == blocks.following) & (blocks.weights > 0)
    return 1 + right.long().cumprod(-1).sum(-1).float()
