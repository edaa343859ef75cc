"""Teacher-forced proposals: what a drafter would draft at given positions of a given text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from truedraft.decode import Batch, Drafter, Proposal, Round, Target


def features(target: Target[Any], tokens: Sequence[int]) -> Tensor:
    """Taps [len(tokens), ΣH] of a text, from one pass of the target."""
    ids = torch.tensor(tokens, device=target.device)
    cache = target.new_cache()
    batch = Batch(
        ids,
        torch.arange(len(ids), device=target.device),
        (0, len(ids)),
        (cache.open(),),
        logit_rows=torch.tensor([len(ids) - 1], device=target.device),
    )
    return target.forward(batch, cache)[1]


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
        sequence, have, out = cache.open(), 0, []
        for anchor in anchors:
            end = anchor + 1 if drafter.needs_anchor_features else anchor
            new = slice(have, end)
            following = ids[have + 1 : end + 1]
            turn = Round(sequence, rows[new], ids[new], following, have, ids[anchor], anchor)
            out.append(drafter.propose([turn], cache))
            have = end
        return out


def accepted_along(
    drafter: Drafter[Any],
    tokens: Sequence[int],
    start: int,
    taps: Tensor,
    speculative_tokens: int | None = None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Proposed and accepted drafts per round when decoding would produce exactly `tokens[start:]`.

    `tokens`: a prompt of `start` >= 1 tokens and its greedy continuation; `taps` [len(tokens), ΣH].
    Verification never changes greedy output, so these are the rounds of the real loop at the cost of the
    drafter alone. Counts follow `Verdict`.
    """
    offered = drafter.proposals if speculative_tokens is None else speculative_tokens
    ids = torch.tensor(tokens, device=taps.device)
    cache = drafter.new_cache()
    sequence, have, anchor = cache.open(), 0, start
    proposed, accepted = [], []
    with torch.inference_mode():
        while anchor < len(tokens) - 1:
            end = anchor + 1 if drafter.needs_anchor_features else anchor
            new = slice(have, end)
            following = ids[have + 1 : end + 1]
            turn = Round(sequence, taps[new], ids[new], following, have, ids[anchor], anchor)
            drafts = drafter.propose([turn], cache).tokens[0, :offered].tolist()
            truth = list(tokens[anchor + 1 : anchor + 1 + len(drafts)])
            agree = next(
                (i for i, (a, b) in enumerate(zip(drafts, truth, strict=False)) if a != b), len(truth)
            )
            left = len(tokens) - 1 - anchor
            cut = agree >= left
            proposed.append(left if cut else len(drafts))
            accepted.append(min(agree, left))
            have, anchor = end, anchor + agree + 1
    return tuple(proposed), tuple(accepted)
