"""Trees of drafts on models whose caches hold separate rows: masks for one pass, and the rows of a path kept.

Recurrent and compressed states have no rows to choose from: a tree there would need one state per branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DummyLayer, DynamicIndexedLayer, DynamicSlidingWindowLayer

from truedraft.decode.protocols import ancestry

WITH_TREES = frozenset({"gemma4_text", "glm_moe_dsa", "gpt_oss", "qwen3_moe"})
"""Model types that take a ready mask for each kind of layer; proved by tests."""


def follows_trees(config: Any) -> bool:
    """Whether a model with this text config can run a tree of rows in one pass."""
    return config.model_type in WITH_TREES


def tree_masks(
    cache: DynamicCache, parents: Sequence[int], positions: Tensor, committed: int, dtype: torch.dtype
) -> Any:
    """Additive masks [1, 1, n, held + n] for the model's `attention_mask`, by kind of layer.

    `parents` [n] and `positions` [n] as in `Batch`, `committed`: rows before them. A sliding layer holds
    the last window - 1 of those, and sees what lies less than a window behind in position.
    """
    own = ancestry(parents).to(positions.device)

    def mask(window: int | None) -> Tensor:
        held = committed if window is None else min(committed, window - 1)
        columns = torch.cat([torch.arange(committed - held, committed, device=positions.device), positions])
        visible = torch.cat([own.new_ones(len(parents), held), own], 1)
        if window is not None:
            visible &= positions[:, None] - columns < window
        shut = torch.zeros(visible.shape, dtype=dtype, device=positions.device)
        return shut.masked_fill(~visible, torch.finfo(dtype).min)[None, None]

    windows = {layer.sliding_window for layer in cache.layers if type(layer) is DynamicSlidingWindowLayer}
    full = mask(None)
    if any(type(layer) is DynamicIndexedLayer for layer in cache.layers):
        return {"indexed_attention": full}
    if not windows:
        return full
    return {"full_attention": full, "sliding_attention": mask(windows.pop())}


def keep_path(cache: DynamicCache, rows: int, kept: Sequence[int], committed: int) -> None:
    """Keep the rows `kept` (increasing) of the last forward's `rows`, behind `committed` earlier ones."""
    layers: list[Any] = cache.layers
    for layer in layers:
        if type(layer) is DummyLayer or not layer.is_initialized:
            continue
        before = layer.keys.shape[2] - rows
        chosen = torch.tensor([*range(before), *(before + row for row in kept)], device=layer.keys.device)
        layer.keys, layer.values = layer.keys[:, :, chosen], layer.values[:, :, chosen]
        if type(layer) is DynamicIndexedLayer and layer.indexer_keys is not None:
            layer.indexer_keys = layer.indexer_keys[:, chosen]
        if type(layer) is DynamicSlidingWindowLayer:
            layer.cumulative_length = committed + len(kept)
            layer.crop(0)  # cuts the window to size
