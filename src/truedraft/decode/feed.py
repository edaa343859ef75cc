"""Running a text through a target in pieces: one way for prefill, features and row-count checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from truedraft.decode.protocols import Batch, Target

PREFILL_ROWS = 512
"""Prompt rows per prefill forward: bounds the memory of the attention scores."""


def feed(
    target: Target[Any],
    cache: Any,
    sequence: int,
    tokens: Tensor,
    *,
    start: int = 0,
    rows: int = PREFILL_ROWS,
    all_logits: bool = False,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Run and commit `tokens[start:]`, `rows` rows at a time; yields each piece's logits and taps.

    Row `start` must be the next one of `sequence`. Logits are those of the piece's last row, or of all rows.
    """
    for first in range(start, len(tokens), rows):
        piece = tokens[first : first + rows]
        count = len(piece)
        batch = Batch(
            piece,
            torch.arange(first, first + count, device=target.device),
            (0, count),
            (sequence,),
            logit_rows=None if all_logits else torch.tensor([count - 1], device=target.device),
        )
        yield target.forward(batch, cache)
        cache.commit(sequence, range(count))
