"""Teacher-forced proposals: what a drafter would draft at given positions of a given text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from truedraft.decode import Batch, Drafter, Proposal, Round, Target


def features(target: Target, tokens: Sequence[int]) -> Tensor:
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
    target: Target,
    drafter: Drafter,
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
