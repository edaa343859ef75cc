"""Target adapter for Hugging Face causal LMs with softmax attention (Qwen2, Qwen3, Qwen3Moe, Llama).

The module's own forward runs on packed rows; only attention is replaced, through transformers' attention
interface, by one that reads and writes our cache. Taps come from forward hooks on the tapped decoder layers,
so the last layer's tap is the residual stream BEFORE the final norm. A fused forward (`dense.py`) takes the
module's place where a comparison at load time finds both equal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from truedraft.contract import InputError
from truedraft.decode.cache import KVCache
from truedraft.decode.protocols import Batch
from truedraft.models.dense import DenseForward, detached
from truedraft.models.hf_tables import HFTables
from truedraft.models.packed_attention import PackedAttention
from truedraft.models.product import Product

ATTENTION = "truedraft"
MODEL_TYPES = frozenset({"llama", "qwen2", "qwen3", "qwen3_moe"})
TREE_MODEL_TYPES = MODEL_TYPES
"""Those whose state is keys and values by row and nothing else, so that any path of a tree can be kept."""


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    truedraft_attention: PackedAttention,
    sliding_window: int | None = None,
    **_unused: object,
) -> tuple[Tensor, None]:
    """Attention as transformers' interface wants it, [1, heads, N, D], over our cache."""
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    out = truedraft_attention(layer, query[0], key[0], value[0], scaling, sliding_window)
    return out.transpose(0, 1)[None], None


def _no_mask(*_args: object, **_kwargs: object) -> None:
    """Masks are built per sequence in `_attention`; transformers must not build its own."""


class HFTarget(HFTables):
    """A transformers causal LM behind the `Target` protocol of `decode`.

    `taps`: layer ids as in the axis `taps.layers` (-1: embedding output). `fused`: run the fused forward of
    `dense.py` where it proves equal to the module's own. Raises `InputError` for a model
    type whose cache is not a plain key/value cache.
    """

    def __init__(
        self,
        model: Any,
        taps: tuple[int, ...],
        *,
        stop_token_ids: frozenset[int] | None = None,
        fused: bool = True,
    ) -> None:
        from transformers import AttentionInterface, AttentionMaskInterface

        config = model.config
        if config.model_type not in MODEL_TYPES:
            raise InputError(
                f"target model_type: found {config.model_type!r}, "
                f"expected one of {', '.join(sorted(MODEL_TYPES))}"
            )
        window = getattr(config, "sliding_window", None)
        if window is not None and window < 1:
            raise InputError(f"target sliding_window: found {window}, expected at least 1, or none")
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
        self.supports_trees = config.model_type in TREE_MODEL_TYPES
        self.taps = taps
        self._tapped = frozenset(taps)
        self._caught: dict[int, Tensor] = {}
        for tap in self._tapped:
            self._hook(tap)
        self._head_product: Product | None = None
        if type(model.lm_head) is nn.Linear:  # a wrapped or adapted head does more than multiply
            self._head_product = Product(model.lm_head.weight.detach(), detached(model.lm_head.bias))
        self._dense: DenseForward | None = None
        self._dense = self._dense_or_none() if fused else None

    @property
    def fused(self) -> bool:
        """Whether the fused forward runs in place of the module's own."""
        return self._dense is not None

    def products(self) -> tuple[Product, ...]:
        """The products that a kernel may compute; none if the module's own forward runs."""
        head = () if self._head_product is None else (self._head_product,)
        return () if self._dense is None else (*self._dense.products(), *head)

    def _hook(self, tap: int) -> None:
        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            self._caught[tap] = output[0] if isinstance(output, tuple) else output

        inner = self.model.model
        module = inner.embed_tokens if tap < 0 else inner.layers[tap]
        module.register_forward_hook(keep)

    def new_cache(self) -> KVCache:
        """An empty cache for this model."""
        return KVCache(self._layers, self._heads, self._head_dim, dtype=self.dtype, device=self.device)

    def forward(self, batch: Batch, cache: KVCache) -> tuple[Tensor, Tensor]:
        """Logits [N or len(logit_rows), V] in fp32 and taps [N, ΣH], concatenated in the order of `taps`."""
        attention = PackedAttention.begin(batch, cache)
        forward = self._module_forward if self._dense is None else self._dense_forward
        hidden, seen = forward(batch, attention)
        rows = hidden if batch.logit_rows is None else hidden[batch.logit_rows]
        head = self._head_product
        logits: Tensor = self.model.lm_head(rows) if head is None else head(rows)
        features = [seen[tap] for tap in self.taps]
        return logits.float(), torch.cat(features, -1) if features else hidden[:, :0]

    def _module_forward(self, batch: Batch, attention: PackedAttention) -> tuple[Tensor, dict[int, Tensor]]:
        """The module's own forward: final-norm hidden states [N, H], and what the hooks caught."""
        output = self.model.model(
            input_ids=batch.tokens[None],
            position_ids=batch.positions[None],
            use_cache=False,
            truedraft_attention=attention,
        )
        seen = {tap: caught[0] for tap, caught in self._caught.items()}
        self._caught.clear()
        return output.last_hidden_state[0], seen

    def _dense_forward(self, batch: Batch, attention: PackedAttention) -> tuple[Tensor, dict[int, Tensor]]:
        dense = self._dense
        assert dense is not None

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return attention(layer, query, key, value, dense.scales[layer], dense.windows[layer])

        return dense(batch.tokens, batch.positions, attend, self._tapped)

    def _dense_or_none(self) -> DenseForward | None:
        """The fused forward, if it does what the module does: same hidden states and taps on a probe text."""
        try:
            dense = DenseForward(self.model)
        except (AttributeError, RuntimeError, TypeError):
            return None
        vocabulary = self.embedding.shape[0]
        tokens = (torch.arange(24, device=self.device) * 7919 + 11) % vocabulary
        found: list[list[Tensor]] = []
        with torch.inference_mode():
            for self._dense in (None, dense):
                cache = self.new_cache()
                sequence = cache.open()
                outputs: list[Tensor] = []
                for start, end in ((0, 16), (16, 24)):
                    positions = torch.arange(start, end, device=self.device)
                    batch = Batch(tokens[start:end], positions, (0, end - start), (sequence,))
                    outputs += self.forward(batch, cache)
                    cache.commit(sequence, range(end - start))
                found.append(outputs)
        return dense if all(map(_equal_but_for_rounding, *found)) else None


def _equal_but_for_rounding(left: Tensor, right: Tensor) -> bool:
    if left.numel() == 0:
        return True
    largest = float(left.abs().max())
    return float((left - right).abs().max()) <= 512 * torch.finfo(left.dtype).eps * max(largest, 1.0)


def _stop_ids(model: Any) -> frozenset[int]:
    ids = model.generation_config.eos_token_id
    if ids is None:
        ids = model.config.eos_token_id
    if ids is None:
        return frozenset()
    return frozenset([ids] if isinstance(ids, int) else ids)
