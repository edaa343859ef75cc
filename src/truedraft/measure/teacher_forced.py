"""Teacher-forced proposals: what a drafter would draft at given positions of a given text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from truedraft.decode import Drafter, Proposal, Round, Target, conclude, feed, verify_greedy


def features(target: Target[Any], tokens: Sequence[int]) -> Tensor:
    """Taps [len(tokens), ΣH] of a text, from one pass of the target."""
    ids = torch.tensor(tokens, device=target.device)
    cache = target.new_cache()
    return torch.cat([taps for _, taps in feed(target, cache, cache.open(), ids)])


def round_at(
    drafter: Drafter[Any], sequence: int, ids: Tensor, taps: Tensor, have: int, anchor: int
) -> Round:
    """The round at `anchor` of a known text, when the drafter has `have` context rows already."""
    end = anchor + 1 if drafter.needs_anchor_features else anchor
    new = slice(have, end)
    return Round(sequence, taps[new], ids[new], ids[have + 1 : end + 1], have, ids[anchor], anchor)


def replay(
    target: Target[Any],
    drafter: Drafter[Any],
    tokens: Sequence[int],
    anchors: Sequence[int],
    taps: Tensor | None = None,
) -> list[Proposal]:
    """The drafter's proposal at each anchor position of `tokens`, with true context rows before it.

    `anchors`: increasing positions >= 1; the anchor is `tokens[position]`. `taps` [len(tokens), ΣH]: the
    target's features if already known.
    """
    with torch.inference_mode():
        rows = features(target, tokens) if taps is None else taps
        ids = torch.tensor(tokens, device=target.device)
        cache = drafter.new_cache()
        sequence, out = cache.open(), []
        for anchor in anchors:
            turn = round_at(drafter, sequence, ids, rows, cache.length(sequence), anchor)
            out.append(drafter.propose([turn], cache))
        return out


def accepted_along(
    drafter: Drafter[Any],
    tokens: Sequence[int],
    start: int,
    taps: Tensor,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Proposed and accepted drafts per round when decoding would produce exactly `tokens[start:]`.

    `tokens`: a prompt of `start` >= 1 tokens and its greedy continuation; `taps` [len(tokens), ΣH].
    Verification never changes greedy output, so these are the rounds of the real loop at the cost of the
    drafter alone. Counts follow `Verdict`.
    """
    ids = torch.tensor(tokens, device=taps.device)
    cache = drafter.new_cache()
    sequence, anchor = cache.open(), start
    proposed, accepted = [], []
    with torch.inference_mode():
        while anchor < len(tokens) - 1:
            turn = round_at(drafter, sequence, ids, taps, cache.length(sequence), anchor)
            drafts = drafter.propose([turn], cache).tokens[0].tolist()
            truth = tokens[anchor + 1 : anchor + 2 + len(drafts)]
            beyond = [-1] * (len(drafts) + 1 - len(truth))  # no draft equals what is not known
            agree, token = verify_greedy(drafts, [*truth, *beyond])
            verdict = conclude(drafts, agree, token, frozenset(), len(tokens) - 1 - anchor)
            proposed.append(verdict.proposed)
            accepted.append(verdict.accepted)
            anchor += len(verdict.tokens)
    return tuple(proposed), tuple(accepted)
