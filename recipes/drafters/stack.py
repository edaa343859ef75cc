"""Plain torch target and drafters: the packed training forward, usable for single blocks too."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drafters.shapes import SLIDING, DrafterSpec, Shape


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, with a learned weight."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [..., size]."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Apply half-rotation RoPE; x [..., rows, head_dim], positions broadcast to [..., rows]."""
    half = x.shape[-1] // 2
    angles = positions[..., None].float() * theta ** (-torch.arange(half).float() / half)
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Attention(nn.Module):
    """Projections of one grouped-query attention with per-head query and key norms."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, wide, bias=False)
        self.k_proj = nn.Linear(shape.hidden, narrow, bias=False)
        self.v_proj = nn.Linear(shape.hidden, narrow, bias=False)
        self.o_proj = nn.Linear(wide, shape.hidden, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.eps)
        self.k_norm = RMSNorm(shape.head_dim, shape.eps)

    def query(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return rotated queries; x [..., rows, hidden] -> [..., heads, rows, head_dim]."""
        q = self.q_norm(self.q_proj(x).unflatten(-1, (self.shape.heads, -1))).transpose(-3, -2)
        return rotate(q, positions.unsqueeze(-2), self.shape.theta)

    def key_value(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return rotated keys and values, each [..., heads, rows, head_dim] (groups expanded)."""
        split, repeat = (self.shape.kv_heads, -1), self.shape.heads // self.shape.kv_heads
        k = self.k_norm(self.k_proj(x).unflatten(-1, split)).transpose(-3, -2)
        v = self.v_proj(x).unflatten(-1, split).transpose(-3, -2)
        k = rotate(k, positions.unsqueeze(-2), self.shape.theta)
        return k.repeat_interleave(repeat, -3), v.repeat_interleave(repeat, -3)

    def output(self, mixed: Tensor) -> Tensor:
        """Project mixed values [..., heads, rows, head_dim] back to [..., rows, hidden]."""
        return self.o_proj(mixed.transpose(-3, -2).flatten(-2))


class MLP(nn.Module):
    """SwiGLU feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [..., hidden] to [..., hidden]."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm transformer layer; the attention pattern is supplied by the caller."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.eps)
        self.mlp = MLP(shape)


class Target(nn.Module):
    """Causal language model with tied embeddings."""

    def __init__(self, shape: Shape, vocab: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)

    def forward(self, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Map ids [b, n] to logits [b, n, vocab] and the output of every layer [b, n, hidden]."""
        x, outputs = self.embed_tokens(ids), []
        positions = torch.arange(ids.shape[1])
        for layer in self.layers:
            inner, attention = layer.input_layernorm(x), layer.self_attn
            q, (k, v) = attention.query(inner, positions), attention.key_value(inner, positions)
            x = x + attention.output(F.scaled_dot_product_attention(q, k, v, is_causal=True))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            outputs.append(x)
        return F.linear(self.norm(x), self.embed_tokens.weight), outputs


class MarkovHead(nn.Module):
    """Low-rank bigram correction of the base logits."""

    def __init__(self, vocab: int, rank: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(vocab, rank)
        self.markov_w2 = nn.Linear(rank, vocab, bias=False)


class ConfidenceHead(nn.Module):
    """Acceptance logit from the hidden state and the predecessor's Markov embedding."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.proj = nn.Linear(size, 1)


class Drafter(nn.Module):
    """Block drafter fed with target features as extra keys and values."""

    def __init__(self, spec: DrafterSpec, vocab: int, target_hidden: int) -> None:
        super().__init__()
        shape = spec.shape
        self.spec = spec
        self.fc = nn.Linear(len(spec.taps) * target_hidden, shape.hidden, bias=False)
        self.hidden_norm = RMSNorm(shape.hidden, shape.eps)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)
        if spec.markov_rank:
            self.markov_head = MarkovHead(vocab, spec.markov_rank)
            self.confidence_head = ConfidenceHead(shape.hidden + spec.markov_rank)

    def forward(self, features: Tensor, anchors: Tensor, block: Tensor) -> Tensor:
        """Run all blocks at once.

        features [b, n, taps * hidden], row c at position c; anchors [b, a] positions;
        block [b, a, width, hidden] input embeddings. Returns normed hidden [b, a, width, hidden].
        Block a sees context rows strictly before anchors[a] and its own rows.
        """
        width = block.shape[2]
        context = self.hidden_norm(self.fc(features))
        rows, slots = torch.arange(features.shape[1]), torch.arange(width)
        positions = anchors[..., None] + slots
        before = (rows < anchors[..., None])[:, :, None, :].expand(-1, -1, width, -1)
        back = slots[:, None] - slots[None, :]
        x = block
        for layer, kind in zip(self.layers, self.spec.layer_types, strict=True):
            seen, own = before, torch.ones(width, width, dtype=torch.bool)
            if kind == SLIDING:
                window = self.spec.sliding_window
                seen = seen & (positions[..., None] - rows < window)
                own = (back >= 0) & (back < window)
            mask = torch.cat((seen, own.expand(*seen.shape[:3], -1)), -1)
            x = x + _attend(layer, layer.input_layernorm(x), context, rows, positions, mask)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x)


def _attend(
    layer: Layer, x: Tensor, context: Tensor, rows: Tensor, positions: Tensor, mask: Tensor
) -> Tensor:
    """Attend from x [b, a, w, h] to context [b, n, h] and to x itself; mask [b, a, w, n + w]."""
    attention, count = layer.self_attn, context.shape[1]
    q = attention.query(x, positions)
    context_k, context_v = attention.key_value(context, rows)
    own_k, own_v = attention.key_value(x, positions)
    # the rows of all blocks meet the context in one product per head; those of a block meet each
    # other element by element, which is faster than thousands of tiny products
    by_head = q.transpose(1, 2)  # [b, heads, a, w, d]
    to_context = (by_head.flatten(2, 3) @ context_k.mT).view(*by_head.shape[:-1], count)
    to_own = (q[..., :, None, :] * own_k[..., None, :, :]).sum(-1)
    scores = torch.cat((to_context.transpose(1, 2), to_own), -1) * attention.shape.head_dim**-0.5
    weights = scores.masked_fill(~mask[:, :, None], float("-inf")).softmax(-1)
    shares = weights[..., :count].transpose(1, 2)  # [b, heads, a, w, n]
    mixed = (shares.flatten(2, 3) @ context_v).view(by_head.shape).transpose(1, 2)
    own = (weights[..., count:, None] * own_v[..., None, :, :]).sum(-2)
    return attention.output(mixed + own)
