"""Block drafters: DFlash and DSpark, built from a contract and tensors and nothing else.

A round embeds one block (the anchor, then masks) and runs it through a small transformer whose layers
attend to keys and values made from target features ("context rows") and to the block itself. DFlash
(arXiv 2602.06036) reads all slots at once; DSpark (arXiv 2607.05147) corrects them left to right with
a Markov head and rates them with a confidence head. Everything in which checkpoints differ is an axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Self, TypeAlias

import torch
from torch import Tensor

from truedraft.contract import Contract
from truedraft.decode.cache import KVCache
from truedraft.decode.drafts import Drafts, Proposal
from truedraft.decode.protocols import Round
from truedraft.decode.sampling import GREEDY, Sampling
from truedraft.decode.tree import grow, propose_trees
from truedraft.models.backbone import make_backbone, make_readout
from truedraft.models.branching import branchings
from truedraft.models.embedding import Embedding
from truedraft.models.packed_attention import attend
from truedraft.models.product import Product
from truedraft.models.readout import Readout
from truedraft.models.support import refuse_unsupported
from truedraft.models.visibility import block_visibility

Masks: TypeAlias = "dict[tuple[object, ...], tuple[int, Tensor | None]]"


class BlockDrafter:
    """A DFlash or DSpark drafter behind the `Drafter` protocol of `decode`.

    `weights`: canonical names (`formats.layouts`) to fp32 tensors. `target_embedding`, `target_head` [V, H]:
    used where the contract's source is `target`.
    """

    def __init__(
        self,
        contract: Contract,
        weights: Mapping[str, Tensor],
        target_embedding: Tensor,
        target_head: Tensor,
    ) -> None:
        refuse_unsupported(contract)
        self.contract = contract
        self.proposals: int = contract["block.proposals"]
        self.width: int = contract["block.width"]
        self.needs_anchor_features: bool = contract["context.end"] == "through_anchor"
        self._embedding = Embedding(contract, weights, target_embedding)
        self.device = self._embedding.table.device
        self._scales: tuple[float, ...] = contract["attention.scale"]
        self._backbone = make_backbone(contract, weights, self.device)
        self.readout = make_readout(contract, weights, target_head)
        self.has_confidence = self.readout.has_confidence

    def products(self) -> tuple[Product, ...]:
        """The products that a kernel may compute."""
        return (*self._backbone.products(), self.readout.product)

    def new_cache(self) -> KVCache:
        """An empty cache of context rows."""
        return KVCache(*self._backbone.cache_shape, device=self.device)

    def propose(self, rounds: Sequence[Round], cache: KVCache, sampling: Sampling = GREEDY) -> Proposal:
        """Take in the rounds' context rows, run their blocks, read off γ drafts each."""
        drafts = Drafts(sampling, [turn.chance for turn in rounds], self.readout.target_ids)
        return self.draft(rounds, cache, drafts)

    def draft(self, rounds: Sequence[Round], cache: KVCache, drafts: Drafts) -> Proposal:
        """`propose` with the choices left to `drafts`."""
        self.extend(rounds, cache)
        hidden = self.block(rounds, cache)
        anchors = torch.stack([turn.anchor_token for turn in rounds])
        _, confidence = self.readout.read(hidden, anchors, drafts)
        return drafts.proposal(confidence)

    @property
    def target_ids(self) -> Tensor | None:
        """Target id of each draft id, int64 [draft ids]; `None` where they are the same."""
        return self.readout.target_ids

    @property
    def head(self) -> Readout:
        """The output head."""
        return self.readout

    def narrowed(self, rows: Tensor) -> Self:
        """The same drafter over some of its draft ids, int64 [n]; everything else is shared."""
        twin = copy(self)
        twin.readout = self.readout.narrowed(rows)
        return twin

    def propose_tree(self, rounds: Sequence[Round], cache: KVCache, budget: int, depth: int) -> Proposal:
        """Take in the rounds' context rows, run their blocks, grow a tree of `budget` prefixes each."""
        self.extend(rounds, cache)
        hidden = self.block(rounds, cache)
        anchors = torch.stack([turn.anchor_token for turn in rounds])
        laws = branchings(self.readout, hidden, anchors, budget, depth)
        return propose_trees([grow(law, budget, depth) for law in laws], self.device)

    def extend(self, rounds: Sequence[Round], cache: KVCache) -> None:
        """Project the rounds' features [n, ΣH] into every layer's keys and values, and commit them."""
        fresh = [turn for turn in rounds if len(turn.taps)]
        if not fresh:
            return
        features = fresh[0].taps if len(fresh) == 1 else torch.cat([turn.taps for turn in fresh])
        spans = [range(t.first_position, t.first_position + len(t.taps)) for t in fresh]
        positions = torch.tensor([p for span in spans for p in span], device=self.device)
        keys, values = self._backbone.context_rows(features, positions, max(span.stop for span in spans))
        done = 0
        for turn in fresh:
            count = len(turn.taps)
            start = cache.reserve(turn.sequence, count)
            if start != turn.first_position:
                raise ValueError(f"context row at position {turn.first_position} would become row {start}")
            cache.keys(turn.sequence)[:, :, start : start + count] = keys[:, :, done : done + count]
            cache.values(turn.sequence)[:, :, start : start + count] = values[:, :, done : done + count]
            cache.commit(turn.sequence, range(count))
            done += count

    def block(self, rounds: Sequence[Round], cache: KVCache) -> Tensor:
        """Hidden states [B, width, H] of one block per round, as the readout wants them."""
        anchors = [turn.anchor_position for turn in rounds]
        for turn in rounds:
            rows = cache.reserve(turn.sequence, self.width)
            if rows != turn.anchor_position + self.needs_anchor_features:
                raise ValueError(f"anchor at position {turn.anchor_position}: found {rows} context rows")
        ids = torch.full((len(rounds), self.width), self.contract["block.mask_token_id"], device=self.device)
        if self.contract["block.anchor_fill"] == "token":
            ids[:, 0] = torch.stack([turn.anchor_token for turn in rounds])
        x = self._embedding(ids.flatten())
        offset = self.contract["block.position_offset"]
        first = torch.tensor(anchors, device=self.device) + offset
        positions = (first[:, None] + torch.arange(self.width, device=self.device)).flatten()
        attend = partial(self._attend, rounds, cache, {})
        hidden = self._backbone(x, positions, max(anchors) + abs(offset) + self.width, attend)
        for turn in rounds:
            cache.commit(turn.sequence, ())
        return hidden.view(len(rounds), self.width, -1)

    def _attend(
        self,
        rounds: Sequence[Round],
        cache: KVCache,
        masks: Masks,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Attention output [heads, B * width, D]; block keys stand behind the context rows, tentatively."""
        outputs = []
        for b, turn in enumerate(rounds):
            rows = slice(b * self.width, (b + 1) * self.width)
            first, mask = self._mask(layer, b, turn, cache, masks)
            own = (query[:, rows], key[:, rows], value[:, rows])
            outputs.append(
                attend(cache, turn.sequence, layer, *own, mask, self._scales[layer], first, sinks=sinks)
            )
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)

    def _mask(
        self, layer: int, index: int, turn: Round, cache: KVCache, masks: Masks
    ) -> tuple[int, Tensor | None]:
        window = self.contract["attention.window"][layer]
        rule, causal = self.contract["attention.window_rule"][layer], self.contract["attention.causal"][layer]
        key = (index, window, rule, causal)
        if key not in masks:
            context, valid = cache.length(turn.sequence), cache.validity(turn.sequence)
            known = None if valid is None else valid[:context]
            masks[key] = block_visibility(
                turn.anchor_position, context, self.width, window, rule, causal, known, self.device
            )
        return masks[key]
