"""One round of block drafting (DFlash, DSpark), slow and plain: a second opinion on the product.

Written from the meanings of the axes and from descriptions of z-lab's, DeepSpec's, speculators' and Laguna's
models, without sight of `truedraft.models`. Everything is a loop over layers, heads, queries and keys in
float64; nothing is fused or cached, and row i of the context stands at position i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Axes = Mapping[str, Any]
Weights = Mapping[str, Tensor]


def reference_round(
    axes: Axes,
    weights: Weights,
    target_embedding: Tensor,
    target_head: Tensor,
    taps: Tensor,
    anchor_token: int,
    anchor_position: int,
    valid: Tensor | None = None,
    forced: Sequence[int] | None = None,
) -> dict[str, Tensor | None]:
    """Hidden states of all slots, and logits, tokens and confidence logits along the greedy path.

    `taps` [c, ΣH]: features of all rows so far, row i at position i. `valid` [c]: rows that may be seen.
    `forced` [γ]: the token before each predicted one, in place of the anchor and the greedy drafts. Returns
    `hidden` [width, H], `logits` [γ, V_d] over draft ids, `tokens` [γ] (target ids) and `confidence_logits`
    [γ] (or `None`).
    """
    _refuse_what_is_not_modelled(axes)
    draft_to_target = [int(entry) for entry in weights["d2t"]] if "d2t" in weights else []
    weights = {name: weight.double() for name, weight in weights.items() if name != "d2t"}
    taps = taps.double()
    embedding = target_embedding if axes["embedding.source"] == "target" else weights["embed_tokens.weight"]
    head = target_head if axes["head.source"] == "target" else weights["lm_head.weight"]
    eps = axes["backbone.norm_eps"]

    context = [_feature(axes, weights, row) for row in taps]
    seen = [_is_context(axes, i, anchor_position, valid) for i in range(len(taps))]

    block = []
    for slot in range(axes["block.width"]):
        token = axes["block.mask_token_id"]
        if slot == 0 and axes["block.anchor_fill"] == "token":
            token = anchor_token
        block.append(embedding[token].double() * axes["embedding.scale"])
    for layer in range(axes["backbone.layers"]):
        block = _layer(axes, weights, layer, context, seen, block, anchor_position)
    hidden = [_norm(row, weights["norm.weight"], eps) for row in block]

    first = 1 if axes["block.first_slot"] == "unused" else 0
    read = hidden[first : first + axes["block.proposals"]]
    out = _read(axes, weights, head.double(), draft_to_target, read, anchor_token, forced)
    return {"hidden": torch.stack(hidden), **out}


def inverse_frequencies(theta: float, dims: int, scaling: Mapping[str, Any] | None) -> list[float]:
    """Radians per position of every rotated pair, scaling included."""
    plain = [theta ** (-2 * i / dims) for i in range(dims // 2)]
    if scaling is None:
        return plain
    factor = scaling["factor"]
    if scaling["kind"] == "linear":
        return [frequency / factor for frequency in plain]
    length = scaling["original_max_position_embeddings"]
    if scaling["kind"] == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        out = []
        for frequency in plain:
            turns = length * frequency / (2 * math.pi)  # over the original context
            if turns < low:
                out.append(frequency / factor)
            elif turns > high:
                out.append(frequency)
            else:
                kept = (turns - low) / (high - low)
                out.append((1 - kept) * frequency / factor + kept * frequency)
        return out
    assert scaling["kind"] == "yarn"
    fast, slow = scaling.get("beta_fast") or 32, scaling.get("beta_slow") or 1

    def pair_that_turns(times: float) -> float:
        """The (fractional) pair whose frequency makes this many turns over the original context."""
        return dims * math.log(length / (times * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_that_turns(fast), pair_that_turns(slow)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    out = []
    for i, frequency in enumerate(plain):
        interpolated = min(max((i - low) / (high - low), 0), 1)  # ramp: 0 below `low`, 1 above `high`
        out.append(frequency / factor * interpolated + frequency * (1 - interpolated))
    return out


def _feature(axes: Axes, weights: Weights, row: Tensor) -> Tensor:
    """What the draft layers see of one context row's concatenated taps."""
    eps = axes["backbone.norm_eps"]
    if axes["fusion.tap_norm"]:
        count = len(axes["taps.layers"])
        width = len(row) // count
        taps = [row[tap * width : (tap + 1) * width] for tap in range(count)]
        row = torch.cat([_norm(tap, weights[f"fc_norm.{i}.weight"], eps) for i, tap in enumerate(taps)])
    if axes["fusion.concat_norm"]:
        row = _norm(row, weights["input_norm.weight"], eps)
    row = weights["fc.weight"] @ row
    return _norm(row, weights["hidden_norm.weight"], eps) if axes["fusion.output_norm"] else row


def _layer(
    axes: Axes,
    weights: Weights,
    layer: int,
    context: list[Tensor],
    seen: list[bool],
    block: list[Tensor],
    anchor: int,
) -> list[Tensor]:
    own = {
        name.removeprefix(f"layers.{layer}."): weight
        for name, weight in weights.items()
        if name.startswith(f"layers.{layer}.")
    }
    eps = axes["backbone.norm_eps"]
    normed = [_norm(row, own["input_layernorm.weight"], eps) for row in block]
    rows = context
    if axes["fusion.input_norm_on_context"]:
        rows = [_norm(row, own["input_layernorm.weight"], eps) for row in context]
    attended = _attention(axes, own, layer, rows, seen, normed, anchor)
    out = []
    for row, update in zip(block, attended, strict=True):
        row = row + update
        inner = _norm(row, own["post_attention_layernorm.weight"], eps)
        gate = _activation(axes["backbone.activation"], own["mlp.gate_proj.weight"] @ inner)
        up = own["mlp.up_proj.weight"] @ inner
        out.append(row + own["mlp.down_proj.weight"] @ (gate * up))
    return out


def _attention(
    axes: Axes,
    own: Weights,
    layer: int,
    context: list[Tensor],
    seen: list[bool],
    block: list[Tensor],
    anchor: int,
) -> list[Tensor]:
    heads, kv_heads = axes["backbone.heads"], axes["backbone.kv_heads"]
    positions = [anchor + axes["block.position_offset"] + slot for slot in range(len(block))]
    theta, dims = axes["rope.theta"][layer], axes["rope.rotary_dims"][layer]
    frequencies = inverse_frequencies(theta, dims, axes["rope.scaling"][layer])
    keys, values = [], []
    for head in range(kv_heads):
        keys.append([])
        for position, row in [*enumerate(context), *zip(positions, block, strict=True)]:
            key = _normed_head(axes, own, "k", row, head)
            keys[head].append(_rotated(axes, layer, frequencies, key, position))
        values.append([_project(axes, own, "v", row, head) for row in [*context, *block]])
    concatenated = [[] for _ in block]
    for head in range(heads):
        kv_head = head // (heads // kv_heads)
        for slot, row in enumerate(block):
            query = _normed_head(axes, own, "q", row, head)
            query = _rotated(axes, layer, frequencies, query, positions[slot])
            shares, visible = [], []
            for column, (key, value) in enumerate(zip(keys[kv_head], values[kv_head], strict=True)):
                if _sees(axes, layer, slot, column, seen, anchor):
                    score = sum(a * b for a, b in zip(query, key, strict=True))
                    shares.append(math.exp(score * axes["attention.scale"][layer]))
                    visible.append(value)
            shares = torch.tensor(shares, dtype=torch.float64)
            attended = (shares / shares.sum()) @ torch.stack(visible)
            if axes["attention.gate"][layer] == "softplus":
                gate = float(own["self_attn.g_proj.weight"][head] @ row)
                attended = attended * math.log(1 + math.exp(gate))
            concatenated[slot].append(attended)
    out = []
    for parts in concatenated:
        row = own["self_attn.o_proj.weight"] @ torch.cat(parts)
        if axes["backbone.attention_bias"]:
            row = row + own["self_attn.o_proj.bias"]
        out.append(row)
    return out


def _is_context(axes: Axes, row: int, anchor: int, valid: Tensor | None) -> bool:
    if valid is not None and not valid[row]:
        return False
    return row < anchor if axes["context.end"] == "before_anchor" else row <= anchor


def _sees(axes: Axes, layer: int, slot: int, column: int, seen: list[bool], anchor: int) -> bool:
    """Whether a slot sees a column: the context's rows come first, then the block's slots."""
    window = axes["attention.window"][layer]
    causal = axes["attention.causal"][layer]
    query_position = anchor + slot
    if column < len(seen):
        if not seen[column]:
            return False
        key_position = column
    else:
        key_slot = column - len(seen)
        if causal and key_slot > slot:
            return False
        key_position = anchor + key_slot
    if window is None:
        return True
    if axes["attention.window_rule"][layer] == "anchor":
        return key_position >= anchor - window
    if query_position - key_position >= window:
        return False
    # z-lab's window reaches as far forwards as backwards where nothing else hides the later slots.
    return causal or key_position - query_position < window


def _project(axes: Axes, own: Weights, which: str, row: Tensor, head: int) -> Tensor:
    size = axes["backbone.head_dim"]
    dims = slice(head * size, (head + 1) * size)
    out = own[f"self_attn.{which}_proj.weight"][dims] @ row
    if axes["backbone.attention_bias"]:
        out = out + own[f"self_attn.{which}_proj.bias"][dims]
    return out


def _normed_head(axes: Axes, own: Weights, which: str, row: Tensor, head: int) -> Tensor:
    out = _project(axes, own, which, row, head)
    if axes["backbone.qk_norm"]:
        out = _norm(out, own[f"self_attn.{which}_norm.weight"], axes["backbone.norm_eps"])
    return out


def _rotated(axes: Axes, layer: int, frequencies: list[float], vector: Tensor, position: int) -> list[float]:
    dims = axes["rope.rotary_dims"][layer]
    start = 0 if axes["rope.placement"][layer] == "first" else len(vector) - dims
    factor = axes["rope.attention_factor"][layer]
    out = vector.tolist()
    for i, frequency in enumerate(frequencies):
        if axes["rope.layout"][layer] == "half":
            a, b = start + i, start + i + dims // 2
        else:
            a, b = start + 2 * i, start + 2 * i + 1
        cosine = factor * math.cos(position * frequency)
        sine = factor * math.sin(position * frequency)
        x, y = out[a], out[b]
        out[a] = x * cosine - y * sine
        out[b] = x * sine + y * cosine
    return out


def _norm(row: Tensor, weight: Tensor, eps: float) -> Tensor:
    return row / torch.sqrt((row * row).mean() + eps) * weight


def _activation(kind: str, x: Tensor) -> Tensor:
    if kind == "silu":
        return x / (1 + torch.exp(-x))
    if kind == "gelu":
        return x * (1 + torch.erf(x / math.sqrt(2))) / 2
    assert kind == "gelu_tanh"
    return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def _read(
    axes: Axes,
    weights: Weights,
    head: Tensor,
    draft_to_target: list[int],
    slots: list[Tensor],
    anchor_token: int,
    forced: Sequence[int] | None,
) -> dict[str, Tensor | None]:
    """Logits, greedy tokens and confidence of the slots that predict, from left to right."""
    kind = axes.get("markov.kind") or "none"
    confidence_input = axes.get("confidence.input") or "none"
    state = torch.zeros(axes["markov.rank"], dtype=torch.float64) if kind != "none" else None
    logits, tokens, confidences = [], [], []
    for index, hidden in enumerate(slots):
        previous = tokens[-1] if tokens else anchor_token
        if forced is not None:
            previous = forced[index]
        biasing = anchor_token if axes.get("markov.previous") == "anchor" else previous
        row = axes["head.multiplier"] * (head @ hidden)
        after = kind != "none" and axes.get("head.softcap_order") == "after_sequence_head"
        if not after:
            row = _softcapped(axes, row)
        if kind != "none":
            embedded = weights["markov_head.markov_w1.weight"][biasing]
            bias, state = _markov(kind, weights, embedded, hidden, state)
            row = row + bias
        if after:
            row = _softcapped(axes, row)
        if confidence_input != "none":
            given = hidden
            if axes["confidence.with_markov"]:
                given = torch.cat([hidden, weights["markov_head.markov_w1.weight"][previous]])
            confidence = (weights["confidence_head.proj.weight"] @ given)[0]
            if axes["confidence.bias"]:
                confidence = confidence + weights["confidence_head.proj.bias"][0]
            confidences.append(confidence)
        logits.append(row)
        tokens.append(_target_id(axes, draft_to_target, int(row.argmax())))
    return {
        "logits": torch.stack(logits),
        "tokens": torch.tensor(tokens),
        "confidence_logits": torch.stack(confidences) if confidences else None,
    }


def _target_id(axes: Axes, draft_to_target: list[int], draft_id: int) -> int:
    kind = axes["head.vocabulary_map"]
    if kind == "none":
        return draft_id
    return draft_to_target[draft_id] + (draft_id if kind == "offset" else 0)


def _softcapped(axes: Axes, logits: Tensor) -> Tensor:
    cap = axes["head.softcap"]
    return logits if cap is None else cap * torch.tanh(logits / cap)


def _markov(
    kind: str, weights: Weights, embedded: Tensor, hidden: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The bias on one slot's logits, and the recurrent state for the next slot (rnn only)."""
    if kind == "gated":
        joined = torch.cat([hidden, embedded])
        gate = weights["markov_head.gate_proj.weight"] @ joined + weights["markov_head.gate_proj.bias"]
        embedded = torch.sigmoid(gate) * embedded
    elif kind == "rnn":
        assert state is not None
        joined = torch.cat([state, embedded, hidden])
        joint = weights["markov_head.joint_proj.weight"] @ joined + weights["markov_head.joint_proj.bias"]
        gate, candidate, out = joint.chunk(3)
        state = torch.sigmoid(gate) * state + (1 - torch.sigmoid(gate)) * torch.tanh(candidate)
        embedded = torch.tanh(out)
    else:
        assert kind == "vanilla"
    return weights["markov_head.markov_w2.weight"] @ embedded, state


def _refuse_what_is_not_modelled(axes: Axes) -> None:
    assert axes["fusion.fc"]
    assert all(gate in ("none", "softplus") for gate in axes["attention.gate"])
    assert (axes.get("confidence.input") or "none") in ("none", "post_norm")
    for name, plain in {
        "attention.sinks": False,
        "attention.value_norm": False,
        "attention.kv_shared": False,
        "rope.positions": "plain",
    }.items():
        assert all(entry == plain for entry in axes[name]), name
