"""Evenly strided windows of the corpus for the training of the target."""

from __future__ import annotations

import torch
from torch import Tensor

from settings import STRIDE, WINDOW_TOKENS


def window_starts(length: int, batch: int, step: int, seed: int) -> Tensor:
    """Return the starts [batch] of a step's windows.

    One epoch visits windows at STRIDE distance, with a phase drawn per epoch, in random order;
    the first and last window of an epoch touch the ends of the text.
    """
    last = length - WINDOW_TOKENS
    per_epoch = last // STRIDE + 2
    picked = []
    for index in range(step * batch, (step + 1) * batch):
        epoch, place = divmod(index, per_epoch)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        phase = int(torch.randint(STRIDE, (1,), generator=generator))
        order = torch.randperm(per_epoch, generator=generator)
        picked.append(min(max(int(order[place]) * STRIDE - phase, 0), last))
    return torch.tensor(picked)
