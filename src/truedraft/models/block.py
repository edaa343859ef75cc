"""Block drafters: DFlash and DSpark, built from a contract and tensors and nothing else.

A round embeds one block (the anchor, then masks) and runs it through a small transformer whose layers
attend to keys and values made from target features ("context rows") and to the block itself. DFlash
(arXiv 2602.06036) reads all slots at once; DSpark (arXiv 2607.05147) corrects them left to right with
a Markov head and rates them with a confidence head. Everything in which checkpoints differ is an axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract
from truedraft.decode.cache import KVCache
from truedraft.decode.drafts import Drafts, Proposal
from truedraft.decode.protocols import Round
from truedraft.decode.sampling import GREEDY, Sampling
from truedraft.decode.tree import grow, propose_trees
from truedraft.models.branching import branchings
from truedraft.models.draft_layer import draft_layer
from truedraft.models.embedding import Embedding
from truedraft.models.fusion import Fusion
from truedraft.models.packed_attention import attend
from truedraft.models.readout import Readout
from truedraft.models.rope import RotaryTable
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
        self._kv_heads: int = contract["backbone.kv_heads"]
        self._head_dim: int = contract["backbone.head_dim"]
        self._eps: float = contract["backbone.norm_eps"]
        self._scales: tuple[float, ...] = contract["attention.scale"]
        self._rope = RotaryTable(contract, self.device)
        self._fusion = Fusion(contract, weights)
        self._final_norm = weights["norm.weight"]
        self._layers = [draft_layer(contract, weights, i) for i in range(contract["backbone.layers"])]
        # keys and values of context rows, for all layers in one product
        queries = contract["backbone.heads"] * self._head_dim
        self._context_kv = torch.stack([layer.weights.qkv[queries:] for layer in self._layers])
        biases = [x.weights.qkv_bias[queries:] for x in self._layers if x.weights.qkv_bias is not None]
        self._context_bias = torch.stack(biases)[:, None] if biases else None  # [layers, 1, 2 kv heads * D]
        norms = [layer.weights.k_norm for layer in self._layers if layer.weights.k_norm is not None]
        self._context_norm = torch.stack(norms)[:, None, None] if norms else None  # [layers, 1, 1, D]
        self.readout = Readout(contract, weights, target_head)
        self.has_confidence = self.readout.has_confidence

    def new_cache(self) -> KVCache:
        """An empty cache of context rows."""
        return KVCache(len(self._layers), self._kv_heads, self._head_dim, device=self.device)

    def propose(self, rounds: Sequence[Round], cache: KVCache, sampling: Sampling = GREEDY) -> Proposal:
        """Take in the rounds' context rows, run their blocks, read off γ drafts each."""
        self.extend(rounds, cache)
        hidden = self.block(rounds, cache)
        drafts = Drafts(sampling, [turn.chance for turn in rounds], self.readout.target_ids)
        anchors = torch.stack([turn.anchor_token for turn in rounds])
        _, confidence = self.readout.read(hidden, anchors, drafts)
        return drafts.proposal(confidence)

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
        keys, values = self._context_rows(features, positions, max(span.stop for span in spans))
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

    def _context_rows(self, features: Tensor, positions: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, kv heads, rows, head dim] of context rows."""
        context = self._fusion(features)
        if self.contract["fusion.input_norm_on_context"]:
            normed = torch.stack([self._norm(context, layer.weights.input_norm) for layer in self._layers])
            kv = torch.bmm(normed, self._context_kv.transpose(1, 2))
        else:
            kv = F.linear(context, self._context_kv.flatten(0, 1)).view(len(context), len(self._layers), -1)
            kv = kv.transpose(0, 1)
        if self._context_bias is not None:
            kv = kv + self._context_bias
        kv = kv.reshape(len(self._layers), len(context), 2, self._kv_heads, self._head_dim)
        keys, values = kv.permute(2, 0, 3, 1, 4)  # each [L, kv heads, rows, D]
        if self._context_norm is not None:
            keys = F.rms_norm(keys, (self._head_dim,), eps=self._eps) * self._context_norm
        cos, sin = self._rope.at(positions, end)
        return self._rope.rotate(keys, cos[:, None], sin[:, None]), values

    def block(self, rounds: Sequence[Round], cache: KVCache) -> Tensor:
        """Final-norm hidden states [B, width, H] of one block per round."""
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
        cos, sin = self._rope.at(positions, max(anchors) + abs(offset) + self.width)
        masks: Masks = {}
        for index, layer in enumerate(self._layers):
            turn_cos, turn_sin = cos[index, :, None], sin[index, :, None]
            normed = layer.normed(x)
            query, key, value = layer.project(normed, partial(self._rope.rotate, cos=turn_cos, sin=turn_sin))
            attended = self._attend(index, query, key, value, rounds, cache, masks)
            x = layer.finish(x, layer.gated(attended, normed))
        for turn in rounds:
            cache.commit(turn.sequence, ())
        return self._norm(x, self._final_norm).view(len(rounds), self.width, -1)

    def _attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rounds: Sequence[Round],
        cache: KVCache,
        masks: Masks,
    ) -> Tensor:
        """Attention output [heads, B * width, D]; block keys stand behind the context rows, tentatively."""
        outputs = []
        for b, turn in enumerate(rounds):
            rows = slice(b * self.width, (b + 1) * self.width)
            first, mask = self._mask(layer, b, turn, cache, masks)
            own = (query[:, rows], key[:, rows], value[:, rows])
            outputs.append(attend(cache, turn.sequence, layer, *own, mask, self._scales[layer], first))
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

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)
