"""One round of chain drafting (EAGLE-3), slow and plain: a second opinion on the product.

Written from the meanings of the axes and from descriptions of speculators' and DeepSpec's models, without
sight of `truedraft.models.chain` (but for what `chain.token` = same means for the rows that draft). Rows run
one after the other, in float64, through loops over layers, heads and keys. Row i stands for position i: it
holds that position's feature, or in the chain the output of the row before, and predicts token i + 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from reference_block import _activation, _norm, _normed_head, _project, _rotated, inverse_frequencies
from torch import Tensor

Axes = Mapping[str, Any]
Weights = Mapping[str, Tensor]


def reference_chain(
    axes: Axes,
    weights: Weights,
    target_embedding: Tensor,
    target_head: Tensor,
    taps: Tensor,
    text: Sequence[int],
    steps: int,
    *,
    forced: Sequence[int] | None = None,
    unseen: Sequence[int] = (),
    since: int = 0,
) -> dict[str, Tensor]:
    """Outputs of all context rows, and hidden states, logits and drafts of the chain that follows them.

    `taps` [c, ΣH]: features of all positions before the anchor's. `text`: tokens from position 0, at least
    through the anchor, which stands at c. `forced`: target ids taken for the drafts when further rows embed
    them. `unseen`: context rows that rows from number `since` on do not see.
    Returns `rows` [c, H], `hidden` [steps, H] (before the final norm), `logits` [steps, draft ids], `ids`
    [steps] (draft ids) and `tokens` [steps] (target ids).
    """
    _refuse_what_is_not_modelled(axes)
    given = weights
    weights = {name: weight.double() for name, weight in weights.items() if name != "d2t"}
    own_table, own_head = axes["embedding.source"] == "own", axes["head.source"] == "own"
    embedding = (weights["embed_tokens.weight"] if own_table else target_embedding).double()
    head = (weights["lm_head.weight"] if own_head else target_head).double()
    eps, count = axes["backbone.norm_eps"], len(taps)
    hidden_rows = frozenset(unseen)
    depth = range(axes["backbone.layers"])
    layers = [_Layer(axes, weights, index, count, hidden_rows, since) for index in depth]

    def output(feature: Tensor, token: int) -> Tensor:
        """The next row's output: one token and one feature through all layers."""
        joined: Tensor | None = embedding[token] * axes["embedding.scale"]
        row = feature
        for layer in layers:
            row = layer(joined, row)
            joined = None
        return row

    ahead = {"next": 1, "same": 0}[axes["chain.token"]]
    known = [int(token) for token in text[: count + 1]]
    rows = [output(_fused(axes, weights, taps[i].double()), known[i + ahead]) for i in range(count)]

    hidden, logits, ids, tokens = [], [], [], []
    row = rows[-1]
    for step in range(steps):
        if step:
            known.append(tokens[-1] if forced is None else int(forced[step - 1]))
            fed = _norm(row, weights["norm.weight"], eps) if axes["chain.feedback"] == "post_norm" else row
            row = output(fed, known[count - 1 + step + ahead])
        scores = axes["head.multiplier"] * (head @ _norm(row, weights["norm.weight"], eps))
        if axes["head.softcap"] is not None:
            scores = axes["head.softcap"] * torch.tanh(scores / axes["head.softcap"])
        hidden.append(row)
        logits.append(scores)
        ids.append(int(scores.argmax()))
        tokens.append(target_id(axes, given, ids[-1]))
    return {
        "rows": torch.stack(rows),
        "hidden": torch.stack(hidden),
        "logits": torch.stack(logits),
        "ids": torch.tensor(ids),
        "tokens": torch.tensor(tokens),
    }


def target_id(axes: Axes, weights: Weights, draft_id: int) -> int:
    """The target's id of a draft id."""
    kind = axes["head.vocabulary_map"]
    if kind == "none":
        return draft_id
    entry = int(weights["d2t"][draft_id])
    return draft_id + entry if kind == "offset" else entry


class _Layer:
    """One draft layer, which remembers keys and values of the rows that it has seen."""

    def __init__(
        self, axes: Axes, weights: Weights, index: int, count: int, unseen: frozenset[int], since: int
    ) -> None:
        prefix = f"layers.{index}."
        self.own = {
            name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)
        }
        self.axes, self.index, self.count, self.unseen, self.since = axes, index, count, unseen, since
        self.keys: list[list[list[float]]] = []  # row, head, dimension
        self.values: list[list[Tensor]] = []

    def __call__(self, embedded: Tensor | None, row: Tensor) -> Tensor:
        """The layer's output for the next row. `embedded`: the row's token, for the first layer only."""
        eps = self.axes["backbone.norm_eps"]
        if embedded is None:
            start, read = row, _norm(row, self.own["input_layernorm.weight"], eps)
        else:
            normed = _norm(row, self.own["hidden_norm.weight"], eps)
            start = normed if self.axes["chain.norm_before_residual"] else row
            read = torch.cat([_norm(embedded, self.own["input_layernorm.weight"], eps), normed])
        middle = start + self._attention(read)
        inner = _norm(middle, self.own["post_attention_layernorm.weight"], eps)
        gate = _activation(self.axes["backbone.activation"], self.own["mlp.gate_proj.weight"] @ inner)
        return middle + self.own["mlp.down_proj.weight"] @ (gate * (self.own["mlp.up_proj.weight"] @ inner))

    def _attention(self, read: Tensor) -> Tensor:
        axes, own, layer = self.axes, self.own, self.index
        heads, kv_heads = axes["backbone.heads"], axes["backbone.kv_heads"]
        query_row = len(self.keys)
        position = query_row + axes["chain.position_offset"]
        frequencies = inverse_frequencies(
            axes["rope.theta"][layer], axes["rope.rotary_dims"][layer], axes["rope.scaling"][layer]
        )
        keys = [_normed_head(axes, own, "k", read, head) for head in range(kv_heads)]
        self.keys.append([_rotated(axes, layer, frequencies, key, position) for key in keys])
        self.values.append([_project(axes, own, "v", read, head) for head in range(kv_heads)])
        visible = [row for row in range(query_row + 1) if self._sees(query_row, row)]
        parts = []
        for head in range(heads):
            kv_head = head // (heads // kv_heads)
            query = _normed_head(axes, own, "q", read, head)
            query = _rotated(axes, layer, frequencies, query, position)
            shares = []
            for row in visible:
                score = sum(a * b for a, b in zip(query, self.keys[row][kv_head], strict=True))
                shares.append(math.exp(score * axes["attention.scale"][layer]))
            mix = torch.zeros(axes["backbone.head_dim"], dtype=torch.float64)
            for share, row in zip(shares, visible, strict=True):
                mix = mix + share / sum(shares) * self.values[row][kv_head]
            parts.append(mix)
        out = own["self_attn.o_proj.weight"] @ torch.cat(parts)
        return out + own["self_attn.o_proj.bias"] if axes["backbone.attention_bias"] else out

    def _sees(self, query: int, key: int) -> bool:
        """Whether a row sees itself or an earlier one."""
        if key == query:
            return True
        if key in self.unseen and query >= self.since:
            return False
        window = self.axes["attention.window"][self.index]
        if window is None:
            return True
        chained = query >= self.count
        if chained and self.axes["attention.window_rule"][self.index] == "anchor":
            # The whole chain looks from the row of its first draft, and sees all of itself.
            return key >= self.count or self.count - 1 - key < window
        return query - key < window


def _fused(axes: Axes, weights: Weights, taps: Tensor) -> Tensor:
    """The feature of one position."""
    eps, row = axes["backbone.norm_eps"], taps
    if axes["fusion.tap_norm"]:
        parts = row.chunk(len(axes["taps.layers"]))
        row = torch.cat([_norm(part, weights[f"fc_norm.{i}.weight"], eps) for i, part in enumerate(parts)])
    if axes["fusion.concat_norm"]:
        row = _norm(row, weights["input_norm.weight"], eps)
    return weights["fc.weight"] @ row


def _refuse_what_is_not_modelled(axes: Axes) -> None:
    assert axes["fusion.fc"]
    assert not axes["fusion.output_norm"]
    for name, plain in {
        "attention.sinks": False,
        "attention.gate": "none",
        "attention.value_norm": False,
        "attention.kv_shared": False,
        "rope.positions": "plain",
    }.items():
        assert all(entry == plain for entry in axes[name]), name
