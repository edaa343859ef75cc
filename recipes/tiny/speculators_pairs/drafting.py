"""Greedy proposals for one anchor, computed by the library's own training forwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from speculators.model import SpeculatorModel
from torch import Tensor

from settings import EOS_ID
from speculators_pairs.plan import Plan


@dataclass
class Proposal:
    """Drafted target ids, the smallest top1-top2 gap and, for DSpark, confidences."""

    tokens: list[int]
    margin: float
    confidence: list[float] | None = None


def _pick(logits: Tensor) -> tuple[int, float]:
    top = logits.topk(2)
    return int(top.indices[0]), float(top.values[0] - top.values[1])


@torch.no_grad()
def propose(
    plan: Plan, model: SpeculatorModel, states: dict[int, Tensor], text: list[int]
) -> Proposal:
    """Draft after text, whose last token is the anchor.

    states [1, at least len(text) - 1, hidden] by aux id; rows from the anchor on are not used.
    """
    context = torch.cat([states[aux][:, : len(text) - 1] for aux in plan.aux], -1)
    if plan.algorithm == "eagle3":
        return _eagle(plan, model, context, text)
    return _block(plan, model, context, text)


def _block(plan: Plan, model: SpeculatorModel, context: Tensor, text: list[int]) -> Proposal:
    """Run one anchored block; what follows the anchor is padding that no slot can see."""
    anchor, width = len(text) - 1, plan.block_size
    size = anchor + 1 + width
    only = torch.zeros(1, size, dtype=torch.bool)
    only[0, anchor] = True
    model_any: Any = model
    hidden, logits, _, _, places = model_any._backbone_forward(
        torch.nn.functional.pad(context, (0, 0, 0, size - anchor)),
        torch.tensor([text + [EOS_ID] * width]),
        only,
        torch.zeros(1, size, context.shape[-1] // len(plan.aux)),
        torch.zeros(1, size, dtype=torch.long),
        max_anchors=1,
    )
    assert int(places[0]) == anchor
    first = 0 if plan.sample_from_anchor else 1
    previous = torch.full((1, width), text[-1])
    tokens, gaps = [], []
    for slot in range(first, width):
        row = logits[0, slot]
        if plan.markov_rank:
            bias = model_any.markov_head.block_bias(prev_token_ids=previous, hidden_states=hidden)
            row = row + bias[0, slot]
        token, gap = _pick(row)
        tokens.append(token)
        gaps.append(gap)
        previous[0, slot + 1 : slot + 2] = token
    if plan.algorithm != "dspark":
        return Proposal(tokens, min(gaps))
    joined = torch.cat((hidden, model_any.markov_head.prev_embeddings(previous)), -1)
    sure = model_any.confidence_head(joined).sigmoid()[0, first:]
    return Proposal(tokens, min(gaps), sure.tolist())


def _eagle(plan: Plan, model: SpeculatorModel, context: Tensor, text: list[int]) -> Proposal:
    """Repeat the forward with every drafted token in place; row t pairs token t + 1, state t.

    Rows behind the anchor's only carry the drafted tokens that the anchor's row is fed.
    """
    model_any: Any = model
    rows = len(text) - 1
    drafted, gaps, seen = [], [], []
    handle = model_any.lm_head.register_forward_hook(lambda _m, _i, output: seen.append(output))
    for step in range(plan.proposals):
        seen.clear()
        model_any(
            hidden_states=torch.nn.functional.pad(context, (0, 0, 0, step)),
            input_ids=torch.tensor([text[1:] + drafted]),
            document_ids=torch.zeros(1, rows + step, dtype=torch.long),
            position_ids=torch.arange(1, rows + step + 1)[None],
            ttt_steps=step + 1,
        )
        index, gap = _pick(seen[step][0, rows - 1])
        drafted.append(index + int(model_any.d2t[index]))
        gaps.append(gap)
    handle.remove()
    return Proposal(drafted, min(gaps))
