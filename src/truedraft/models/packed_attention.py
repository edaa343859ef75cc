"""Attention of a target's packed rows over the cache: which rows see which, sequence by sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.decode.cache import KVCache
from truedraft.decode.protocols import Batch, ancestry


@dataclass
class PackedAttention:
    """One forward: its rows, its cache, and where each sequence's tentative rows start."""

    batch: Batch
    cache: KVCache
    starts: list[int]
    masks: dict[tuple[int, int | None], Tensor | None] = field(default_factory=dict)

    @classmethod
    def begin(cls, batch: Batch, cache: KVCache) -> PackedAttention:
        """Reserve the batch's rows in the cache."""
        spans = zip(batch.sequence_ids, batch.query_start, batch.query_start[1:], strict=False)
        return cls(batch, cache, [cache.reserve(sequence, end - start) for sequence, start, end in spans])

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """Write key and value [kv heads, N, D] of a layer, attend, return [heads, N, D]."""
        outputs = []
        for index, sequence in enumerate(self.batch.sequence_ids):
            rows, start = self.batch.rows_of(index), self.starts[index]
            end = start + rows.stop - rows.start
            keys, values = self.cache.keys(sequence)[layer], self.cache.values(sequence)[layer]
            keys[:, start:end] = key[:, rows]
            values[:, start:end] = value[:, rows]
            outputs.append(
                F.scaled_dot_product_attention(
                    query[None, :, rows],
                    keys[None, :, :end],
                    values[None, :, :end],
                    attn_mask=self.mask(index, window),
                    scale=scale,
                    enable_gqa=True,
                )[0]
            )
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)

    def mask(self, index: int, window: int | None) -> Tensor | None:
        """Visibility bool [n, start + n] of the `index`-th sequence; `None` when everything is visible."""
        key = (index, window)
        if key not in self.masks:
            self.masks[key] = self._build(index, window)
        return self.masks[key]

    def _build(self, index: int, window: int | None) -> Tensor | None:
        rows, start = self.batch.rows_of(index), self.starts[index]
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
