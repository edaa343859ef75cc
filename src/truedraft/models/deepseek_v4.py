"""The stages of the DSpark drafter inside a DeepSeek-V4 checkpoint: whole V4 blocks instead of dense layers.

Context rows are main_norm(main_proj(taps)); every stage makes one latent row of each, at its own position,
and nothing else. The block's rows run through the stages on n streams, which start as copies of the
embedding and are collapsed by hc_head. Logits read the collapsed state through the norm, the confidence head
without it. Sources: deepseek-ai/DeepSeek-V4-Flash-DSpark `inference/model.py`; vLLM 0.32
`models/deepseek_v4/nvidia/dspark.py` and SGLang 0.5.23 `deepseek_v4_dspark.py`, which agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract
from truedraft.models.experts import Experts
from truedraft.models.fusion import Fusion
from truedraft.models.hyper_connection import HyperConnection, HyperHead
from truedraft.models.latent_attention import LatentAttention
from truedraft.models.product import Product
from truedraft.models.readout import Readout
from truedraft.models.rope import RotaryTable

if TYPE_CHECKING:
    from truedraft.models.backbone import Attend


class Stage:
    """One V4 block. `weights`: its tensors below `mtp.N.`."""

    def __init__(
        self, contract: Contract, index: int, weights: Mapping[str, Tensor], rope: RotaryTable
    ) -> None:
        self._eps: float = contract["backbone.norm_eps"]
        self.attention_norm, self._expert_norm = weights["attn_norm.weight"], weights["ffn_norm.weight"]
        self.attention = LatentAttention(contract, _below(weights, "attn."), rope)
        self.sinks = weights["attn.attn_sink"] if contract["attention.sinks"][index] else None
        self._experts = Experts(contract, _below(weights, "ffn."))
        self._around_attention = HyperConnection(contract, _below(weights, "hc_attn_"))
        self._around_experts = HyperConnection(contract, _below(weights, "hc_ffn_"))
        self._index = index

    def __call__(self, streams: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Streams [N, n, H] after the block; cos and sin [N, rotated dims]."""
        x, post, comb = self._around_attention.collapse(streams)
        normed = self.norm(x, self.attention_norm)
        latent = self.attention.latent(normed, cos, sin)[None]
        query = self.attention.query(normed, cos, sin)
        read = self.attention.output(attend(self._index, query, latent, latent, self.sinks), cos, sin)
        streams = self._around_attention.spread(streams, read, post, comb)
        x, post, comb = self._around_experts.collapse(streams)
        return self._around_experts.spread(
            streams, self._experts(self.norm(x, self._expert_norm)), post, comb
        )

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMS norm of rows [N, H]."""
        return F.rms_norm(x, weight.shape, weight, self._eps)


class Stages:
    """A `Backbone` of V4 blocks. `weights`: canonical names (`formats.stage_layout`) to tensors."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor], device: torch.device) -> None:
        self._streams: int = contract["stages.streams"]
        self._input_norm_on_context: bool = contract["fusion.input_norm_on_context"]
        self._rope = RotaryTable(contract, device)
        fused = {"main_proj.weight": "fc.weight", "main_norm.weight": "hidden_norm.weight"}
        first = _below(weights, "mtp.0.")
        self._fusion = Fusion(contract, {fused[name]: first[name] for name in fused if name in first})
        count = contract["backbone.layers"]
        self._stages = [Stage(contract, i, _below(weights, f"mtp.{i}."), self._rope) for i in range(count)]
        self._head = HyperHead(contract, _below(weights, f"mtp.{count - 1}.hc_head_"))
        self.cache_shape = (count, 1, contract["backbone.head_dim"])

    def context_rows(self, taps: Tensor, positions: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values [stages, 1, n, D], which are the same, of taps [n, ΣH] at positions below `end`."""
        context = self._fusion(taps)
        cos, sin = self._rope.at(positions, end)
        latents = []
        for i, stage in enumerate(self._stages):
            rows = stage.norm(context, stage.attention_norm) if self._input_norm_on_context else context
            latents.append(stage.attention.latent(rows, cos[i], sin[i])[None])
        stacked = torch.stack(latents)
        return stacked, stacked

    def products(self) -> tuple[Product, ...]:
        """The one that a kernel may compute: experts and latents are cut anew in every pass."""
        return (self._fusion.product,)

    def __call__(self, x: Tensor, positions: Tensor, largest: int, attend: Attend) -> Tensor:
        """Collapsed hidden states [N, H], before the norm, of embeddings [N, H]."""
        cos, sin = self._rope.at(positions, largest)
        streams = x[:, None].expand(-1, self._streams, -1)
        for i, stage in enumerate(self._stages):
            streams = stage(streams, cos[i], sin[i], attend)
        return self._head(streams)


class StageReadout(Readout):
    """Reads drafts off hidden states before the norm. `weights`, `target_head`: as for `Readout`."""

    def __init__(self, contract: Contract, weights: Mapping[str, Tensor], target_head: Tensor) -> None:
        own = _below(weights, f"mtp.{contract['backbone.layers'] - 1}.")
        super().__init__(contract, own, target_head)
        self._final_norm = own["norm.weight"]
        self._eps: float = contract["backbone.norm_eps"]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of hidden states [..., H], which pass the norm first."""
        return super().logits(self._normed(hidden))

    def confidence_logits(self, slots: Tensor, previous: Tensor) -> Tensor:
        """As in `Readout`; the axis `confidence.input` says whether the norm comes first."""
        late = self.contract["confidence.input"] == "post_norm"
        return super().confidence_logits(self._normed(slots) if late else slots, previous)

    def _normed(self, hidden: Tensor) -> Tensor:
        return F.rms_norm(hidden, self._final_norm.shape, self._final_norm, self._eps)


def _below(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
