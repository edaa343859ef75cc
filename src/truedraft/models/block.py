"""Block drafters: DFlash and DSpark, built from a contract and tensors and nothing else.

A round embeds one block (the anchor, then masks) and runs it through a small transformer whose layers
attend to keys and values made from target features ("context rows") and to the block itself. DFlash
(arXiv 2602.06036) reads all slots at once; DSpark (arXiv 2607.05147) corrects them left to right with
a Markov head and rates them with a confidence head. Everything in which checkpoints differ is an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract, InputError, Value, format_value
from truedraft.decode.cache import KVCache
from truedraft.decode.protocols import Proposal, Round
from truedraft.models.layer import Layer, LayerWeights
from truedraft.models.packed_attention import attend
from truedraft.models.readout import Readout
from truedraft.models.rope import RotaryTable, require_uniform
from truedraft.models.visibility import block_visibility

ONLY: dict[str, Value] = {
    "taps.state": "residual",
    "taps.basis": "plain",
    "fusion.tap_norm": False,
    "fusion.fc": True,
    "attention.sinks": False,
    "attention.gate": "none",
    "attention.value_norm": False,
    "attention.kv_shared": False,
    "rope.positions": "plain",
    "head.vocabulary_map": "none",
    "backbone.attention_bias": False,
}
"""Axes on which this drafter can do one thing only; another value is refused, never ignored."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}

FARTHEST = 4096
"""Largest offset of a block's positions: it bounds the rotary table."""

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
        own = contract["embedding.source"] == "own"
        self._embedding = weights["embed_tokens.weight"] if own else target_embedding
        self.device = self._embedding.device
        self._kv_heads: int = contract["backbone.kv_heads"]
        self._head_dim: int = contract["backbone.head_dim"]
        self._eps: float = contract["backbone.norm_eps"]
        self._scales: tuple[float, ...] = contract["attention.scale"]
        self._rope = RotaryTable(contract, self.device)
        self._fc, self._output_norm = weights["fc.weight"], weights.get("hidden_norm.weight")
        self._final_norm = weights["norm.weight"]
        self._layers = [self._layer(weights, f"layers.{i}") for i in range(contract["backbone.layers"])]
        # keys and values of context rows, for all layers in one product
        queries = contract["backbone.heads"] * self._head_dim
        self._context_kv = torch.stack([layer.weights.qkv[queries:] for layer in self._layers])
        norms = [layer.weights.k_norm for layer in self._layers if layer.weights.k_norm is not None]
        self._context_norm = torch.stack(norms)[:, None, None] if norms else None  # [layers, 1, 1, D]
        self.readout = Readout(contract, weights, target_head)
        self.has_confidence = self.readout.has_confidence

    def _layer(self, weights: Mapping[str, Tensor], prefix: str) -> Layer:
        def tensor(name: str) -> Tensor:
            return weights[f"{prefix}.{name}.weight"]

        has_norm = self.contract["backbone.qk_norm"]
        fused = LayerWeights(
            input_norm=tensor("input_layernorm"),
            qkv=torch.cat([tensor(f"self_attn.{which}_proj") for which in "qkv"]),
            o=tensor("self_attn.o_proj"),
            mlp_norm=tensor("post_attention_layernorm"),
            gate_up=torch.cat([tensor("mlp.gate_proj"), tensor("mlp.up_proj")]),
            down=tensor("mlp.down_proj"),
            q_norm=tensor("self_attn.q_norm") if has_norm else None,
            k_norm=tensor("self_attn.k_norm") if has_norm else None,
        )
        activation = ACTIVATIONS[self.contract["backbone.activation"]]
        heads: int = self.contract["backbone.heads"]
        return Layer(fused, heads, self._kv_heads, self._head_dim, self._eps, activation)

    def new_cache(self) -> KVCache:
        """An empty cache of context rows."""
        return KVCache(len(self._layers), self._kv_heads, self._head_dim, device=self.device)

    def propose(self, rounds: Sequence[Round], cache: KVCache) -> Proposal:
        """Take in the rounds' context rows, run their blocks, read off γ drafts each."""
        self.extend(rounds, cache)
        hidden = self.block(rounds, cache)
        tokens, _, confidence = self.readout.read(hidden, torch.stack([turn.anchor_token for turn in rounds]))
        return Proposal(tokens, (self.proposals,) * len(rounds), confidence=confidence)

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
        context = F.linear(features, self._fc)
        if self.contract["fusion.output_norm"]:
            assert self._output_norm is not None
            context = self._norm(context, self._output_norm)
        if self.contract["fusion.input_norm_on_context"]:
            normed = torch.stack([self._norm(context, layer.weights.input_norm) for layer in self._layers])
            kv = torch.bmm(normed, self._context_kv.transpose(1, 2))
        else:
            kv = F.linear(context, self._context_kv.flatten(0, 1)).view(len(context), len(self._layers), -1)
            kv = kv.transpose(0, 1)
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
        x = self._embedding[ids.flatten()]
        if self.contract["embedding.scale"] != 1.0:
            x = x * self.contract["embedding.scale"]
        offset = self.contract["block.position_offset"]
        first = torch.tensor(anchors, device=self.device) + offset
        positions = (first[:, None] + torch.arange(self.width, device=self.device)).flatten()
        cos, sin = self._rope.at(positions, max(anchors) + abs(offset) + self.width)
        masks: Masks = {}
        for index, layer in enumerate(self._layers):
            turn_cos, turn_sin = cos[index, :, None], sin[index, :, None]
            query, key, value = layer.project(x, partial(self._rope.rotate, cos=turn_cos, sin=turn_sin))
            x = layer.finish(x, self._attend(index, query, key, value, rounds, cache, masks))
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


def refuse_unsupported(contract: Contract) -> None:
    """Raise `InputError` naming the first axis whose value this drafter cannot honour."""
    for name, value in ONLY.items():
        found = contract[name]
        entries = found if isinstance(found, tuple) else (found,)
        for entry in entries:
            if entry != value:
                shown, wanted = f"{name}={format_value(entry)}", format_value(value)
                raise InputError(
                    f"{shown}: the {contract.family} drafter cannot run this yet, expected {wanted}"
                )
    if contract.get("confidence.input") == "pre_norm":
        raise InputError(f"confidence.input=pre_norm: the {contract.family} drafter cannot run this yet")
    if contract.get("confidence.with_markov") and contract.get("markov.kind") == "none":
        raise InputError(
            "confidence.with_markov=true: found markov.kind=none, expected a Markov head to read"
        )
    dims, head_dim = contract["rope.rotary_dims"][0], contract["backbone.head_dim"]
    if dims % 2 or dims > head_dim:
        raise InputError(f"rope.rotary_dims={dims}: expected an even number up to head_dim {head_dim}")
    offset = contract["block.position_offset"]
    if abs(offset) > FARTHEST:
        raise InputError(f"block.position_offset={offset}: expected {-FARTHEST} to {FARTHEST}")
    for name, mixed in require_uniform(contract, ["rope.rotary_dims", "rope.layout", "rope.placement"]):
        raise InputError(f"{name}={mixed}: found different values per layer, expected one for all")
