"""Which keys a draft's rows see, per layer: the masks of block drafting and of chains."""

from __future__ import annotations

import torch
from torch import Tensor


def block_visibility(
    anchor: int,
    rows: int,
    width: int,
    window: int | None,
    rule: str,
    causal: bool,
    valid: Tensor | None = None,
    device: torch.device | str = "cpu",
) -> tuple[int, Tensor | None]:
    """First context row that any slot of a block sees, and the mask from there on.

    Keys are the context rows at positions 0 … rows-1, then the block's own. Slot j stands at anchor+j.
    `rows`: context rows, equal to `anchor` when context ends before the anchor, one more when it includes
    it. Returns `first` and a bool mask [width, rows - first + width], true = visible, or `None` when every
    slot sees all of these keys. Rule `query`: a key is visible iff q - k < W (and k - q < W), W counting the
    query itself (z-lab/dflash@07ebd93, vLLM). Rule `anchor`: a context key is visible iff
    k >= anchor - W, for every slot (speculators). `valid`: bool [rows], false for unwritten context rows.
    """
    first = 0
    if window is not None:
        first = max(0, anchor - window + (1 if rule == "query" else 0))
    if valid is not None and bool(valid[first:rows].all()):
        valid = None
    if window is None and not causal and valid is None:
        return first, None
    slots = torch.arange(width, device=device)
    queries = slots[:, None]
    keys = torch.cat([torch.arange(first - anchor, rows - anchor, device=device), slots])
    visible = torch.ones(width, len(keys), dtype=torch.bool, device=device)
    if causal:
        visible[:, rows - first :] &= slots <= queries
    if window is not None and rule == "query":
        visible &= (queries - keys < window) & (keys - queries < window)
    if valid is not None:
        visible[:, : rows - first] &= valid[first:rows]
    return first, visible


def chain_visibility(
    start: int,
    count: int,
    window: int | None,
    origin: int | None = None,
    valid: Tensor | None = None,
    device: torch.device | str = "cpu",
) -> tuple[int, Tensor | None]:
    """First row that any of `count` new rows behind `start` earlier ones sees, and the mask from there on.

    Returns `first` and a bool mask [count, start + count - first], true = visible, or `None` when every new
    row sees all of these. A row sees itself and earlier rows; with a window W those with q - k < W, where q
    is `origin`, or the row itself without one. `valid`: bool [start + count], false for unwritten rows.
    """
    queries = torch.arange(start, start + count, device=device)[:, None]
    oldest = 0
    if window is not None:
        oldest = max(0, (start if origin is None else origin) - window + 1)
    keys = torch.arange(oldest, start + count, device=device)
    visible = keys <= queries
    if window is not None and origin is None:
        visible &= queries - keys < window
    if valid is not None:
        visible &= valid[oldest : start + count]
    return oldest, None if bool(visible.all()) else visible
