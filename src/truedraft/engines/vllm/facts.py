"""What was read from a live engine, as plain values: the border between vLLM's objects and the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rows = dict[int, tuple[tuple[float, ...], tuple[float, ...]]]
"""Cosines and sines of some positions, one entry per rotated pair."""


@dataclass(frozen=True)
class LiveRope:
    """One rotary module. `kind`: its class. `half`: pairs (i, i + dims/2), else neighbours. `exact`: whether
    the table is fp32. `base`, `scaling_factor`: attributes, which the table need not follow.
    """

    kind: str
    dims: int
    half: bool
    base: float
    scaling_factor: float | None
    rows: Rows
    exact: bool


@dataclass(frozen=True)
class LiveLayer:
    """Attention of one draft layer. `causal`: the layer's own flag, `None` where it has none."""

    window: int | None
    causal: bool | None
    scale: float
    sinks: bool
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float | None
    qk_norm: bool
    rope: LiveRope | None


@dataclass(frozen=True)
class LiveTable:
    """Embedding or head of the drafter.

    `shared`: its storage is the target's (`data_ptr`); `None` where this rank holds no target table. `own`:
    the checkpoint had one, as the loader noted (vLLM drops it if it equals the target's).
    """

    shared: bool | None
    own: bool
    rows: int


@dataclass(frozen=True)
class LiveNorms:
    """Norms and recurrence of an EAGLE-3 drafter."""

    before_residual: bool
    per_tap: bool
    before_fc: bool
    output: bool


@dataclass(frozen=True)
class LiveHeads:
    """Sequence and confidence head of a DSpark drafter. `confidence`: `None` without one."""

    rank: int
    confidence_with_markov: bool | None
    confidence_bias: bool | None


@dataclass(frozen=True)
class LiveEngine:
    """A loaded drafter and what the runner does with it.

    `taps`: entries of layers that are captured, sorted, each once; `None` where they cannot be read. An
    entry L is the input of layer L, the output of layer L - 1. `plain_taps`: captured as
    `hidden + residual`. `fused`: taps that `fc` takes. `model`: class names of the drafter, most special
    first. `width`: query rows per round, `None` for chains. `causal`: what attention is told, per layer,
    where that is not the layer's own flag. `context_rope`: the table that rotates context keys.
    `parameters`: names that are the drafter's own storage. `k_norm_error`: largest deviation of the fused
    norm of context keys from the layers' own, relative to the largest key.
    """

    version: str
    runner: Literal["v1", "v2"]
    method: str
    model: tuple[str, ...]
    proposals: int
    width: int | None
    first_slot_predicts: bool
    mask_token_id: int | None
    taps: tuple[int, ...] | None
    plain_taps: bool
    target_layers: int
    fused: int | None
    layers: tuple[LiveLayer, ...]
    causal: tuple[bool, ...] | None
    context_rope: LiveRope | None
    embedding: LiveTable | None
    head: LiveTable | None
    vocabulary_map: bool
    multiplier: float | None
    softcap: float | None
    norms: LiveNorms | None
    heads: LiveHeads | None
    hidden_size: int | None
    parameters: tuple[str, ...]
    block_drop: bool
    k_norm_error: float | None

    @property
    def block_drafter(self) -> bool:
        """Whether it is vLLM's generic DFlash or DSpark drafter, whose layers are known."""
        return "DFlashQwen3ForCausalLM" in self.model and bool(self.layers)

    @property
    def chain_drafter(self) -> bool:
        """Whether it is vLLM's generic EAGLE-3 drafter."""
        return "Eagle3LlamaForCausalLM" in self.model and bool(self.layers)
