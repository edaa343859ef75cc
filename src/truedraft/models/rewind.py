"""A transformers cache whose last forward can be taken back from any row on, without running the model.

transformers' own `crop` serves keys and values. It raises on a full sliding window unless the past was
recorded, leaves the recurrent state of linear attention as it is (silently wrong), and DeepSeek-V4's
compressors too. Each layer is chosen here by its EXACT class, since `is_croppable` is inherited by layers
for which it is untrue; a class that nobody has looked at is refused.

| layer of the cache | families | taken back by |
|---|---|---|
| keys and values, with indexer keys or without | Qwen3Moe, GLM, full layers elsewhere | crop |
| sliding window | GptOss, Gemma4, DeepSeek-V4 ratio 0 | recording, and crop after every forward |
| convolution and recurrent state | Qwen3.5, Qwen3Next | `rewind_linear.py` |
| window and compressors | DeepSeek-V4 | `rewind_compressed.py` |

Nothing is copied beforehand: `torch.cat` makes new tensors, so that holding a reference is a snapshot.
"""

from __future__ import annotations

from typing import Any

from transformers import DynamicCache
from transformers.cache_utils import (
    DummyLayer,
    DynamicIndexedLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionLayer,
)

from truedraft.contract import InputError
from truedraft.models.rewind_linear import RewindLinear, rerun

_DEEPSEEK_V4 = "transformers.models.deepseek_v4.modeling_deepseek_v4"
PER_ROW = (DummyLayer, DynamicIndexedLayer, DynamicLayer, DynamicSlidingWindowLayer)
"""Layers that hold separate rows, so that any may be kept (Gemma4's layers without own rows are dummies)."""


def rewindable(config: Any) -> DynamicCache:
    """An empty cache for one sequence of a model with this text config.

    Raises `InputError` naming the class of a layer whose state this module cannot take back.
    """
    cache = DynamicCache(config=config)
    cache.layers = [_rewindable(layer, config, index) for index, layer in enumerate(cache.layers)]
    return cache


def _rewindable(layer: Any, config: Any, index: int) -> Any:
    kind = type(layer)
    if kind is DynamicSlidingWindowLayer:
        layer.activate_past_recording()
    if kind in PER_ROW:
        return layer
    if kind is LinearAttentionLayer and layer.number_of_states == 1:
        return RewindLinear()
    if kind.__module__ == _DEEPSEEK_V4:
        from truedraft.models.rewind_compressed import REWINDABLE

        if kind in REWINDABLE:
            return REWINDABLE[kind](config)
    raise InputError(
        f"target cache layer {index}: found {kind.__name__}, expected one whose last rows can be taken back"
    )


def linear_layers(cache: DynamicCache) -> list[RewindLinear]:
    """The layers of linear attention, in order."""
    return [layer for layer in cache.layers if isinstance(layer, RewindLinear)]


def keep_first(cache: DynamicCache, rows: int, kept: int) -> None:
    """Keep the first `kept` of the last forward's `rows` rows. Needed after every forward."""
    layers: list[Any] = cache.layers
    for layer in layers:
        layer.crop(kept - rows)
    rerun(linear_layers(cache), rows, kept)
