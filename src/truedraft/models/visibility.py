"""Which keys a draft block sees: the attention mask of block drafting, per layer.

Keys are the context rows at positions 0 … rows-1, then the block's own rows. Slot j stands at anchor+j.
"""

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
    """First context row that any slot sees, and the mask from there on.

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
