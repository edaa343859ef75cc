"""EAGLE-3's chain drafter (arXiv 2503.01840), built from a contract and tensors and nothing else.

Row t stands for position t: it joins the feature of position t with the embedding of token t + 1 and
predicts token t + 2. The rows of true features are the context. One pass takes in the new ones, and its last
row makes the first draft; each further draft is one more row, in which the drafter's own hidden state takes
the feature's place. Those rows are forgotten afterwards. With e the embedding and f the feature, layer 0 does

    x = f  (or hidden_norm(f): `chain.norm_before_residual`)
    x = x + attention([input_norm(e); hidden_norm(f)])
    x = x + mlp(post_attention_norm(x))

and further layers are ordinary. Logits are head(norm(x)) over the draft vocabulary; what is fed back is x, or
norm(x) (`chain.feedback`). Everything in which checkpoints differ is an axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract, InputError
from truedraft.decode.cache import KVCache
from truedraft.decode.drafts import Drafts, Proposal
from truedraft.decode.protocols import Round
from truedraft.decode.sampling import GREEDY, Sampling
from truedraft.models.draft_layer import draft_layer
from truedraft.models.embedding import Embedding
from truedraft.models.fusion import Fusion
from truedraft.models.head import Head
from truedraft.models.packed_attention import attend
from truedraft.models.product import Product
from truedraft.models.rope import RotaryTable
from truedraft.models.support import refuse_unsupported
from truedraft.models.visibility import chain_visibility

DEFAULT_PROPOSALS = 5
"""Drafts per round where neither the checkpoint nor the user says how many."""

MOST_PROPOSALS = 256
"""Longest chain that is made: every draft costs a pass, and published drafters make 3 to 16."""


class ChainCache(KVCache):
    """Rows of true features, and per sequence the outputs [n, H] of those that came in last."""

    def __init__(self, layers: int, kv_heads: int, head_dim: int, device: torch.device) -> None:
        super().__init__(layers, kv_heads, head_dim, device=device)
        self.recent: dict[int, Tensor] = {}

    def close(self, sequence: int) -> None:
        """Forget a sequence and free its memory."""
        super().close(sequence)
        self.recent.pop(sequence, None)

    def fork(self, sequence: int, rows: int) -> int:
        """As `KVCache.fork`; row `rows - 1` must be one of those that came in last."""
        recent, first = self.recent[sequence], self.length(sequence) - len(self.recent[sequence])
        if not first < rows <= self.length(sequence):
            raise ValueError(f"fork needs {first + 1} to {self.length(sequence)} rows, found {rows}")
        copy = super().fork(sequence, rows)
        self.recent[copy] = recent[: rows - first]
        return copy


@dataclass(frozen=True)
class _Span:
    """One sequence's rows in a pass.

    `rows`: packed rows. `drafted`: `None` for context rows; for a chain's row, how many stand before it.
    """

    sequence: int
    rows: slice
    drafted: int | None = None


class ChainDrafter:
    """An EAGLE-3 drafter behind the `Drafter` protocol of `decode`.

    `weights`: canonical names (`formats.layouts`) to fp32 tensors. `target_embedding`, `target_head` [V, H]:
    used where the contract's source is `target`. `proposals`: drafts per round; default: what the checkpoint
    asks for, else `DEFAULT_PROPOSALS`.
    """

    has_confidence = False
    needs_anchor_features = False

    def __init__(
        self,
        contract: Contract,
        weights: Mapping[str, Tensor],
        target_embedding: Tensor,
        target_head: Tensor,
        proposals: int | None = None,
    ) -> None:
        refuse_unsupported(contract)
        self.contract = contract
        self.proposals: int = proposals or contract.get("chain.steps") or DEFAULT_PROPOSALS
        if not 0 < self.proposals <= MOST_PROPOSALS:
            raise InputError(
                f"drafts per round: found {self.proposals} (speculative tokens or chain.steps), "
                f"expected 1 to {MOST_PROPOSALS}"
            )
        self._embedding = Embedding(contract, weights, target_embedding)
        self.device = self._embedding.table.device
        self._eps: float = contract["backbone.norm_eps"]
        self._scales: tuple[float, ...] = contract["attention.scale"]
        self._fusion = Fusion(contract, weights)
        self._feature_norm = weights["layers.0.hidden_norm.weight"]
        self._layers = [draft_layer(contract, weights, i) for i in range(contract["backbone.layers"])]
        self._final_norm = weights["norm.weight"]
        self._rope = RotaryTable(contract, self.device)
        self.head = Head(contract, weights, target_head)

    def products(self) -> tuple[Product, ...]:
        """The products that a kernel may compute."""
        layers = (product for layer in self._layers for product in layer.products)
        return (self._fusion.product, *layers, self.head.product)

    def new_cache(self) -> ChainCache:
        """An empty cache of context rows."""
        kv_heads, head_dim = self.contract["backbone.kv_heads"], self.contract["backbone.head_dim"]
        return ChainCache(len(self._layers), kv_heads, head_dim, self.device)

    def propose(self, rounds: Sequence[Round], cache: ChainCache, sampling: Sampling = GREEDY) -> Proposal:
        """Take in the rounds' context rows and draft a chain behind each."""
        drafts = Drafts(sampling, [turn.chance for turn in rounds], self.head.target_ids)
        return self.draft(rounds, cache, drafts)

    def draft(self, rounds: Sequence[Round], cache: ChainCache, drafts: Drafts) -> Proposal:
        """`propose` with the choices left to `drafts`."""
        self.extend(rounds, cache)
        hidden = torch.stack([cache.recent[turn.sequence][-1] for turn in rounds])
        lag = int(self.contract["chain.token"] == "same")
        known = [torch.stack([turn.anchor_token for turn in rounds])]
        for step in range(self.proposals):
            known.append(drafts.choose(self.logits(hidden)))
            if step + 1 < self.proposals:
                hidden = self.step(rounds, cache, step, known[-1 - lag], hidden)
        for turn in rounds:
            cache.commit(turn.sequence, ())
        return drafts.proposal()

    @property
    def target_ids(self) -> Tensor | None:
        """Target id of each draft id, int64 [draft ids]; `None` where they are the same."""
        return self.head.target_ids

    def narrowed(self, rows: Tensor) -> Self:
        """The same drafter over some of its draft ids, int64 [n]; everything else is shared."""
        twin = copy(self)
        twin.head = self.head.narrowed(rows)
        return twin

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the draft vocabulary [..., draft ids] of rows' outputs [..., H]."""
        return self.head.logits(self._norm(hidden, self._final_norm))

    def extend(self, rounds: Sequence[Round], cache: ChainCache) -> None:
        """Run the rounds' new context rows, commit them, and keep the last one's output."""
        fresh = [turn for turn in rounds if len(turn.taps)]
        if not fresh:
            return
        spans, starts, done = [], [], 0
        for turn in fresh:
            count = len(turn.taps)
            starts.append(cache.reserve(turn.sequence, count))
            if starts[-1] != turn.first_position:
                raise ValueError(f"context row of position {turn.first_position} would be row {starts[-1]}")
            spans.append(_Span(turn.sequence, slice(done, done + count)))
            done += count
        same = self.contract["chain.token"] == "same"
        tokens = torch.cat([turn.tokens if same else turn.next_tokens for turn in fresh])
        positions = torch.cat(
            [
                torch.arange(start, start + len(turn.taps), device=self.device)
                for start, turn in zip(starts, fresh, strict=True)
            ]
        )
        features = self._fusion(torch.cat([turn.taps for turn in fresh]))
        hidden = self._run(tokens, features, positions, spans, cache)
        for span in spans:
            cache.commit(span.sequence, range(span.rows.stop - span.rows.start))
            cache.recent[span.sequence] = hidden[span.rows]

    def step(
        self, rounds: Sequence[Round], cache: ChainCache, number: int, tokens: Tensor, hidden: Tensor
    ) -> Tensor:
        """Outputs [B, H] of the chain's row behind `number` others, from tokens [B] and hidden [B, H]."""
        if number == 0:
            for turn in rounds:
                cache.reserve(turn.sequence, self.proposals - 1)
        if self.contract["chain.feedback"] == "post_norm":
            hidden = self._norm(hidden, self._final_norm)
        spans = [_Span(turn.sequence, slice(b, b + 1), number) for b, turn in enumerate(rounds)]
        rows = [cache.length(turn.sequence) + number for turn in rounds]
        return self._run(tokens, hidden, torch.tensor(rows, device=self.device), spans, cache)

    def _run(
        self, tokens: Tensor, features: Tensor, positions: Tensor, spans: Sequence[_Span], cache: ChainCache
    ) -> Tensor:
        """Outputs [N, H], before the final norm, of rows at `positions`, which are their features'."""
        embedded = self._embedding(tokens)
        placed = positions + self.contract["chain.position_offset"]
        cos, sin = self._rope.at(placed, int(placed.abs().max()))
        normed_feature = self._norm(features, self._feature_norm)
        x = normed_feature if self.contract["chain.norm_before_residual"] else features
        for index, layer in enumerate(self._layers):
            if index == 0:
                inputs = torch.cat([layer.normed(embedded), normed_feature], -1)
            else:
                inputs = layer.normed(x)
            rotate = partial(self._rope.rotate, cos=cos[index, :, None], sin=sin[index, :, None])
            query, key, value = layer.project(inputs, rotate)
            x = layer.finish(x, self._attend(index, query, key, value, spans, cache))
        return x

    def _attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        spans: Sequence[_Span],
        cache: ChainCache,
    ) -> Tensor:
        """Attention output [heads, N, D]."""
        window, rule = self.contract["attention.window"][layer], self.contract["attention.window_rule"][layer]
        outputs = []
        for span in spans:
            context, behind = cache.length(span.sequence), span.drafted or 0
            # rule `anchor`: a chain's windows count from the row that made its first draft (speculators)
            origin = context - 1 if rule == "anchor" and span.drafted is not None else None
            valid, count = cache.validity(span.sequence), span.rows.stop - span.rows.start
            first, mask = chain_visibility(context + behind, count, window, origin, valid, self.device)
            own = (query[:, span.rows], key[:, span.rows], value[:, span.rows])
            scale = self._scales[layer]
            outputs.append(attend(cache, span.sequence, layer, *own, mask, scale, first, behind))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)
