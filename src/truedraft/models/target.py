"""Target adapter for Hugging Face causal LMs with softmax attention (Qwen2, Qwen3, Llama).

The model's own forward runs unchanged on packed rows; only attention is replaced, through transformers'
attention interface, by one that reads and writes our cache. Taps come from forward hooks on the tapped
decoder layers, so the last layer's tap is the residual stream BEFORE the final norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truedraft.contract import InputError
from truedraft.decode.cache import KVCache
from truedraft.decode.protocols import Batch, ancestry

ATTENTION = "truedraft"
MODEL_TYPES = frozenset({"qwen2", "qwen3", "llama"})


@dataclass
class _Step:
    """One forward: its rows, its cache, and where each sequence's tentative rows start."""

    batch: Batch
    cache: KVCache
    starts: list[int]
    masks: dict[tuple[int, int | None], Tensor | None]

    def mask(self, index: int, window: int | None) -> Tensor | None:
        """Visibility bool [n, start + n] of the `index`-th sequence; `None` when everything is visible."""
        key = (index, window)
        if key not in self.masks:
            self.masks[key] = self._build(index, window)
        return self.masks[key]

    def _build(self, index: int, window: int | None) -> Tensor | None:
        rows, start = self.batch.rows_of(index), self.starts[index]
        count, device = rows.stop - rows.start, self.batch.tokens.device
        total = start + count
        if self.batch.parents is not None:
            own = ancestry(self.batch.parents[rows]).to(device)
            visible = torch.cat([torch.ones(count, start, dtype=torch.bool, device=device), own], 1)
        elif count == 1 and window is None:
            return None
        else:
            visible = torch.ones(count, total, dtype=torch.bool, device=device).tril(start)
        if window is not None:
            positions = self.batch.positions[rows]
            keys = torch.cat([torch.arange(start, device=device), positions])
            visible = visible & (positions[:, None] - keys < window)
        return visible


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    truedraft_step: _Step,
    sliding_window: int | None = None,
    **_unused: object,
) -> tuple[Tensor, None]:
    """Attention of packed rows [1, heads, N, head dim] over each sequence's own cache."""
    step, layer = truedraft_step, int(module.layer_idx)  # type: ignore[arg-type]
    outputs = []
    for index, sequence in enumerate(step.batch.sequence_ids):
        rows, start = step.batch.rows_of(index), step.starts[index]
        end = start + rows.stop - rows.start
        keys, values = step.cache.keys(sequence)[layer], step.cache.values(sequence)[layer]
        keys[:, start:end] = key[0, :, rows]
        values[:, start:end] = value[0, :, rows]
        outputs.append(
            F.scaled_dot_product_attention(
                query[:, :, rows],
                keys[None, :, :end],
                values[None, :, :end],
                attn_mask=step.mask(index, sliding_window),
                scale=scaling,
                enable_gqa=True,
            )
        )
    packed = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    return packed.transpose(1, 2), None


def _no_mask(*_args: object, **_kwargs: object) -> None:
    """Masks are built per sequence in `_attention`; transformers must not build its own."""


class HFTarget:
    """A transformers causal LM behind the `Target` protocol of `decode`.

    `taps`: layer ids as in the axis `taps.layers` (-1: embedding output). Raises `InputError` for a model
    type whose cache is not a plain key/value cache.
    """

    def __init__(
        self, model: Any, taps: tuple[int, ...], *, stop_token_ids: frozenset[int] | None = None
    ) -> None:
        from transformers import AttentionInterface, AttentionMaskInterface

        config = model.config
        if config.model_type not in MODEL_TYPES:
            raise InputError(
                f"target model_type: found {config.model_type!r}, "
                f"expected one of {', '.join(sorted(MODEL_TYPES))}"
            )
        AttentionInterface.register(ATTENTION, _attention)
        AttentionMaskInterface.register(ATTENTION, _no_mask)
        model.set_attn_implementation(ATTENTION)
        self.model = model.eval()
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.max_positions = int(config.max_position_embeddings)
        self.stop_token_ids = stop_token_ids if stop_token_ids is not None else _stop_ids(model)
        self._heads = int(config.num_key_value_heads)
        self._head_dim = int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self._layers = int(config.num_hidden_layers)
        self.taps = taps
        self._captured: dict[int, Tensor] = {}
        for tap in set(taps):
            self._hook(tap)

    def _hook(self, tap: int) -> None:
        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            self._captured[tap] = output[0] if isinstance(output, tuple) else output

        inner = self.model.model
        module = inner.embed_tokens if tap < 0 else inner.layers[tap]
        module.register_forward_hook(keep)

    @property
    def embedding(self) -> Tensor:
        """Raw embedding table [V, H]."""
        table: Tensor = self.model.get_input_embeddings().weight
        return table

    @property
    def head(self) -> Tensor:
        """Output head [V, H]."""
        table: Tensor = self.model.get_output_embeddings().weight
        return table

    def new_cache(self) -> KVCache:
        """An empty cache for this model."""
        return KVCache(self._layers, self._heads, self._head_dim, dtype=self.dtype, device=self.device)

    def forward(self, batch: Batch, cache: KVCache) -> tuple[Tensor, Tensor]:
        """Logits [N or len(logit_rows), V] in fp32 and taps [N, ΣH], concatenated in the order of `taps`."""
        spans = zip(batch.sequence_ids, batch.query_start, batch.query_start[1:], strict=False)
        starts = [cache.reserve(sequence, end - start) for sequence, start, end in spans]
        output = self.model(
            input_ids=batch.tokens[None],
            position_ids=batch.positions[None],
            use_cache=False,
            logits_to_keep=0 if batch.logit_rows is None else batch.logit_rows,
            truedraft_step=_Step(batch, cache, starts, {}),
        )
        features = [self._captured[tap][0] for tap in self.taps]
        self._captured.clear()
        taps = torch.cat(features, dim=-1) if features else output.logits.new_empty(len(batch.tokens), 0)
        return output.logits[0].float(), taps


def _stop_ids(model: Any) -> frozenset[int]:
    ids = model.generation_config.eos_token_id
    if ids is None:
        ids = model.config.eos_token_id
    if ids is None:
        return frozenset()
    return frozenset([ids] if isinstance(ids, int) else ids)
