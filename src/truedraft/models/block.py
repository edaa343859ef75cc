"""Block drafters: DFlash and DSpark, built from a contract and tensors and nothing else.

A round embeds one block (the anchor, then masks) and runs it through a small transformer whose layers
attend to keys and values made from target features ("context rows") and to the block itself. DFlash
(arXiv 2602.06036) reads all slots at once; DSpark (arXiv 2607.05147) corrects them left to right with
a Markov head and rates them with a confidence head. Everything in which checkpoints differ is an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from truedraft.contract import Contract, InputError
from truedraft.decode.cache import KVCache
from truedraft.decode.protocols import Proposal, Round
from truedraft.models.readout import Readout
from truedraft.models.rope import RotaryTable, require_uniform
from truedraft.models.visibility import block_visibility

ONLY = {
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
        self._heads: int = contract["backbone.heads"]
        self._kv_heads: int = contract["backbone.kv_heads"]
        self._head_dim: int = contract["backbone.head_dim"]
        self._eps: float = contract["backbone.norm_eps"]
        self._layers: int = contract["backbone.layers"]
        self._activation = ACTIVATIONS[contract["backbone.activation"]]
        self._qk_norm: bool = contract["backbone.qk_norm"]
        self._scales: tuple[float, ...] = contract["attention.scale"]
        self._rope = RotaryTable(contract, self.device)
        self._stack(weights)
        self.readout = Readout(contract, weights, target_head)

    def _stack(self, weights: Mapping[str, Tensor]) -> None:
        """Fuse q/k/v and gate/up per layer, and the context's k/v over all layers: fewer, larger products."""

        def layers(name: str) -> list[Tensor]:
            return [weights[f"layers.{i}.{name}.weight"] for i in range(self._layers)]

        q, k, v = (layers(f"self_attn.{name}_proj") for name in "qkv")
        self._fc, self._output_norm = weights["fc.weight"], weights.get("hidden_norm.weight")
        self._final_norm = weights["norm.weight"]
        self._qkv = [torch.cat(rows) for rows in zip(q, k, v, strict=True)]
        self._context_kv = torch.stack([torch.cat(rows) for rows in zip(k, v, strict=True)])
        self._o = layers("self_attn.o_proj")
        self._gate_up = [
            torch.cat(r) for r in zip(layers("mlp.gate_proj"), layers("mlp.up_proj"), strict=True)
        ]
        self._down = layers("mlp.down_proj")
        self._input_norm = layers("input_layernorm")
        self._mlp_norm = layers("post_attention_layernorm")
        if self._qk_norm:
            self._q_norm = layers("self_attn.q_norm")
            self._k_norm = layers("self_attn.k_norm")
            self._k_norms = torch.stack(self._k_norm)[:, None, None]  # [L, 1, 1, D]

    def new_cache(self) -> KVCache:
        """An empty cache of context rows."""
        return KVCache(self._layers, self._kv_heads, self._head_dim, device=self.device)

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
            normed = torch.stack([self._norm(context, weight) for weight in self._input_norm])
            kv = torch.bmm(normed, self._context_kv.transpose(1, 2))
        else:
            kv = F.linear(context, self._context_kv.flatten(0, 1)).view(len(context), self._layers, -1)
            kv = kv.transpose(0, 1)
        kv = kv.reshape(self._layers, len(context), 2, self._kv_heads, self._head_dim)
        keys, values = kv.permute(2, 0, 3, 1, 4)  # each [L, kv heads, rows, D]
        if self._qk_norm:
            keys = F.rms_norm(keys, (self._head_dim,), eps=self._eps) * self._k_norms
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
        masks: dict[tuple[object, ...], tuple[int, Tensor | None]] = {}
        for layer in range(self._layers):
            x = x + self._attend(layer, x, cos[layer, :, None], sin[layer, :, None], rounds, cache, masks)
            gate, up = F.linear(self._norm(x, self._mlp_norm[layer]), self._gate_up[layer]).chunk(2, -1)
            x = x + F.linear(self._activation(gate) * up, self._down[layer])
        for turn in rounds:
            cache.commit(turn.sequence, ())
        return self._norm(x, self._final_norm).view(len(rounds), self.width, -1)

    def _attend(
        self,
        layer: int,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        rounds: Sequence[Round],
        cache: KVCache,
        masks: dict[tuple[object, ...], tuple[int, Tensor | None]],
    ) -> Tensor:
        """Attention output [B * width, H] of one layer; block keys stand behind the context rows."""
        qkv = F.linear(self._norm(x, self._input_norm[layer]), self._qkv[layer])
        qkv = qkv.view(len(x), -1, self._head_dim)
        q, k, v = torch.split(qkv, [self._heads, self._kv_heads, self._kv_heads], dim=1)
        if self._qk_norm:
            q, k = self._norm(q, self._q_norm[layer]), self._norm(k, self._k_norm[layer])
        q = self._rope.rotate(q, cos, sin).transpose(0, 1)  # [heads, B * width, D]
        k, v = self._rope.rotate(k, cos, sin).transpose(0, 1), v.transpose(0, 1)
        outputs = []
        for b, turn in enumerate(rounds):
            rows, start = slice(b * self.width, (b + 1) * self.width), cache.length(turn.sequence)
            keys, values = cache.keys(turn.sequence)[layer], cache.values(turn.sequence)[layer]
            end = start + self.width
            keys[:, start:end], values[:, start:end] = k[:, rows], v[:, rows]
            valid = cache.validity(turn.sequence)
            first, mask = self._mask(layer, turn.anchor_position, start, valid, b, masks)
            outputs.append(
                F.scaled_dot_product_attention(
                    q[None, :, rows],
                    keys[None, :, first:end],
                    values[None, :, first:end],
                    attn_mask=mask,
                    scale=self._scales[layer],
                    enable_gqa=True,
                )[0]
            )
        packed = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
        return F.linear(packed.transpose(0, 1).reshape(len(x), -1), self._o[layer])

    def _mask(
        self,
        layer: int,
        anchor: int,
        context: int,
        valid: Tensor | None,
        index: int,
        masks: dict[tuple[object, ...], tuple[int, Tensor | None]],
    ) -> tuple[int, Tensor | None]:
        window = self.contract["attention.window"][layer]
        rule, causal = self.contract["attention.window_rule"][layer], self.contract["attention.causal"][layer]
        key = (index, window, rule, causal)
        if key not in masks:
            known = None if valid is None else valid[:context]
            masks[key] = block_visibility(
                anchor, context, self.width, window, rule, causal, known, self.device
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
                raise InputError(
                    f"{name}={entry}: the {contract.family} drafter cannot run this yet, expected {value}"
                )
    if contract.get("confidence.input") == "pre_norm":
        raise InputError(f"confidence.input=pre_norm: the {contract.family} drafter cannot run this yet")
    if contract.get("confidence.with_markov") and contract.get("markov.kind") == "none":
        raise InputError(
            "confidence.with_markov=true: found markov.kind=none, expected a Markov head to read"
        )
    for name, mixed in require_uniform(contract, ["rope.rotary_dims", "rope.layout", "rope.placement"]):
        raise InputError(f"{name}={mixed}: found different values per layer, expected one for all")
