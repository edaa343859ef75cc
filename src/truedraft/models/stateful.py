"""Target adapter for Hugging Face causal LMs of any cache: recurrent, compressed, indexed, or plain.

One transformers cache per sequence, made rewindable layer by layer (`rewind.py`), and a loop over the
sequences: a recurrence or a compressor would take packed rows for one text. The WHOLE model is called, so
that what follows its last norm (Gemma's soft cap) stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truedraft.contract import InputError
from truedraft.decode.protocols import Batch
from truedraft.models.hf_tables import HFTables
from truedraft.models.product import Product
from truedraft.models.stateful_types import STATEFUL_TYPES
from truedraft.models.tap_hooks import Taps, concatenated

if TYPE_CHECKING:  # importing transformers takes seconds, and a dense target does without its caches
    from truedraft.models.stateful_cache import StatefulCache


class StatefulTarget(HFTables):
    """A transformers causal LM behind the `Target` protocol of `decode`, sequence by sequence.

    `taps`: layer ids as in the axis `taps.layers` (-1: embedding output); `states`: as in `taps.state`
    (default: the output of the layer, a mean where it has residual streams). Raises `InputError` for a model
    type that no test covers, a cache that cannot be rolled back, or a state that the model does not have.
    """

    def __init__(
        self,
        model: Any,
        taps: tuple[int, ...],
        states: tuple[str, ...] | None = None,
        *,
        stop_token_ids: frozenset[int] = frozenset(),
    ) -> None:
        from truedraft.models.rewind_linear import install
        from truedraft.models.rewind_tree import follows_trees

        self._config = config = model.config.get_text_config(decoder=True)
        if config.model_type not in STATEFUL_TYPES:
            raise InputError(
                f"target model_type: found {config.model_type!r}, "
                f"expected one of {', '.join(sorted(STATEFUL_TYPES))}"
            )
        self.supports_trees = follows_trees(config)
        self.model = model.eval()
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.max_positions = int(config.max_position_embeddings)
        self.stop_token_ids = stop_token_ids
        inner = getattr(model.model, "language_model", model.model)  # multimodal models wrap the text model
        streams = getattr(config, "hc_mult", None) is not None
        usual = "stream_mean" if streams else "residual"
        self._taps = Taps(inner, taps, states or (usual,) * len(taps), streams)
        install([layer.linear_attn for layer in inner.layers if hasattr(layer, "linear_attn")])
        self._try_out()

    def _try_out(self) -> None:
        """Run two rows and one: what cannot be rolled back is refused now rather than at the first prompt."""
        cache = self.new_cache()
        sequence = cache.open()
        with torch.inference_mode():
            for first, count in ((0, 2), (2, 1)):
                ids = torch.zeros(count, dtype=torch.int64, device=self.device)
                positions = torch.arange(first, first + count, device=self.device)
                self.forward(Batch(ids, positions, (0, count), (sequence,)), cache)
                cache.commit(sequence, range(count))

    @property
    def taps(self) -> tuple[int, ...]:
        """The tapped layer ids."""
        return self._taps.layers

    def products(self) -> tuple[Product, ...]:
        """None: the module's own forward runs, and its products with it."""
        return ()

    def new_cache(self) -> StatefulCache:
        """An empty cache for this model."""
        from truedraft.models.stateful_cache import StatefulCache

        return StatefulCache(self._config)

    def forward(self, batch: Batch, cache: StatefulCache) -> tuple[Tensor, Tensor]:
        """Logits [N or len(logit_rows), V] in fp32 and taps [N, ΣH], concatenated in the order of `taps`.

        Raises `InputError` for a tree of rows where the model's state has no rows to choose from.
        """
        wanted = list(range(len(batch.tokens))) if batch.logit_rows is None else batch.logit_rows.tolist()
        logits, taps, order = [], [], []
        for index, sequence in enumerate(batch.sequence_ids):
            rows = batch.rows_of(index)
            asked = [place for place, row in enumerate(wanted) if rows.start <= row < rows.stop]
            own = torch.tensor([wanted[place] - rows.start for place in asked], dtype=torch.int64)
            parents = None if batch.parents is None else batch.parents[rows]
            tokens, positions = batch.tokens[rows], batch.positions[rows]
            logits.append(
                cache.forward(self.model, sequence, tokens, positions, parents, own.to(self.device))
            )
            taps.append(self._taps.take(len(tokens)))
            order += asked
        places = torch.tensor(order, device=self.device).argsort()
        features = concatenated(taps) if self.taps else logits[0].new_zeros(len(batch.tokens), 0)
        return torch.cat(logits)[places].float(), features
