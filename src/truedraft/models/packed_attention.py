"""Attention over the cache, sequence by sequence, and which of a target's packed rows see which."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.decode.cache import KVCache
from truedraft.decode.protocols import Batch, ancestry


def attend(
    cache: KVCache,
    sequence: int,
    layer: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    first: int = 0,
    behind: int = 0,
    sinks: Tensor | None = None,
) -> Tensor:
    """One sequence's attention in one layer, [heads, n, D].

    Writes key and value [kv heads, n, D] as the tentative rows behind the committed ones and `behind` earlier
    tentative ones, then attends from query [heads, n, D] to all rows from `first` on; `mask` bool [n, rows],
    `None` when all are visible. `sinks` [heads]: a score of each head that takes its share of the softmax and
    gives nothing for it.
    """
    start = cache.length(sequence) + behind
    end = start + key.shape[1]
    keys, values = cache.keys(sequence)[layer], cache.values(sequence)[layer]
    keys[:, start:end], values[:, start:end] = key, value
    if sinks is not None:
        return _with_sinks(query, keys[:, first:end], values[:, first:end], mask, scale, sinks)
    return F.scaled_dot_product_attention(
        query[None],
        keys[None, :, first:end],
        values[None, :, first:end],
        attn_mask=mask,
        scale=scale,
        enable_gqa=True,
    )[0]


def _with_sinks(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, sinks: Tensor
) -> Tensor:
    shared = len(query) // len(keys)
    keys, values = keys.repeat_interleave(shared, 0), values.repeat_interleave(shared, 0)
    scores = (query @ keys.mT * scale).float()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sinks.float()[:, None, None].expand(-1, scores.shape[1], 1)
    shares = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    return shares.to(values.dtype) @ values


@dataclass
class PackedAttention:
    """One forward: its rows and its cache."""

    batch: Batch
    cache: KVCache
    masks: dict[tuple[int, int | None], Tensor | None] = field(default_factory=dict)

    @classmethod
    def begin(cls, batch: Batch, cache: KVCache) -> PackedAttention:
        """Reserve the batch's rows in the cache."""
        for index, sequence in enumerate(batch.sequence_ids):
            rows = batch.rows_of(index)
            cache.reserve(sequence, rows.stop - rows.start)
        return cls(batch, cache)

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """Write key and value [kv heads, N, D] of a layer, attend, return [heads, N, D]."""
        outputs = []
        for index, sequence in enumerate(self.batch.sequence_ids):
            rows, mask = self.batch.rows_of(index), self.mask(index, window)
            outputs.append(
                attend(self.cache, sequence, layer, query[:, rows], key[:, rows], value[:, rows], mask, scale)
            )
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)

    def mask(self, index: int, window: int | None) -> Tensor | None:
        """Visibility bool [n, start + n] of the `index`-th sequence; `None` when everything is visible."""
        key = (index, window)
        if key not in self.masks:
            self.masks[key] = self._build(index, window)
        return self.masks[key]

    def _build(self, index: int, window: int | None) -> Tensor | None:
        rows, start = self.batch.rows_of(index), self.cache.length(self.batch.sequence_ids[index])
        count, device = rows.stop - rows.start, self.batch.tokens.device
        valid = self.cache.validity(self.batch.sequence_ids[index])
        if self.batch.parents is not None:
            own = ancestry(self.batch.parents[rows]).to(device)
            visible = torch.cat([torch.ones(count, start, dtype=torch.bool, device=device), own], 1)
        elif count == 1 and window is None and valid is None:
            return None
        else:
            visible = torch.ones(count, start + count, dtype=torch.bool, device=device).tril(start)
        if window is not None:
            positions = self.batch.positions[rows]
            keys = torch.cat([torch.arange(start, device=device), positions])
            visible = visible & (positions[:, None] - keys < window)
        return visible if valid is None else visible & valid
