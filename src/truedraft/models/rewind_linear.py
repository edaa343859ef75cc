"""Taking back rows of a gated delta rule: convolution columns are cropped, the recurrence is run again.

The state after the accepted rows lies nowhere: a forward gives the state after all of its rows. But the
inputs of the recurrence do not depend on the state within a layer, so that those of the accepted rows are
kept and the recurrence alone runs again from the old state, which is still there because nothing writes
into it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import LinearAttentionLayer

from truedraft.contract import InputError

KERNELS = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")
"""Global names by which transformers' Qwen3.5-like files call the recurrence, for many rows and for one."""


@dataclass(frozen=True)
class Recurrence:
    """What one layer's recurrence was given.

    `key`, `value` [1, n, heads, D]; `decay` (its logarithm), `beta` [1, n, value heads]; `state`
    [1, value heads, key dim, value dim] before the rows, `None` at a sequence's start.
    """

    key: Tensor
    value: Tensor
    decay: Tensor
    beta: Tensor
    state: Tensor | None


class RewindLinear(LinearAttentionLayer):
    """transformers' layer, recording its convolution columns and never writing into an old state."""

    def __init__(self) -> None:
        super().__init__(number_of_states=1)
        self.record_past = True
        self.last: Recurrence | None = None

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **_: Any) -> Tensor:
        """Take the new state; the parent would copy it into the old one."""
        self.is_recurrent_states_initialized[state_idx] = True
        self.recurrent_states[state_idx] = recurrent_states
        return recurrent_states


def rerun(layers: Sequence[RewindLinear], rows: int, kept: int) -> None:
    """Set the recurrent states to those after the first `kept` of the last forward's `rows` rows."""
    last = [layer.last for layer in layers if layer.last is not None]
    if last and kept < rows:  # all layers at once: their shapes are equal, so they stack as a batch
        states: Tensor | None = None
        if last[0].state is not None:
            states = torch.cat([each.state for each in last if each.state is not None])
        inputs = {name: torch.cat([getattr(each, name)[:, :kept] for each in last]) for name in _ROWS}
        for layer, state in zip(layers, gated_delta_state(**inputs, state=states), strict=True):
            layer.recurrent_states[0] = state[None]
    for layer in layers:
        layer.last = None


_ROWS = ("key", "value", "decay", "beta")


def gated_delta_state(
    key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, state: Tensor | None
) -> Tensor:
    """State [B, value heads, key dim, value dim] in fp32 after the given rows; arguments as in `Recurrence`.

    S ← exp(decay)·S, then S ← S + k ⊗ β(v - kᵀS) with k of unit length: `torch_recurrent_gated_delta_rule`
    of transformers' modeling_qwen3_5.py without the queries. Value heads share the keys of their group.
    """
    key = key.float()
    key = key * torch.rsqrt((key * key).sum(-1, keepdim=True) + 1e-6)
    key = key.repeat_interleave(value.shape[2] // key.shape[2], 2)
    value, decay, beta = value.float(), decay.float().exp(), beta.float()
    if state is None:
        state = value.new_zeros(value.shape[0], value.shape[2], key.shape[-1], value.shape[-1])
    state = state.float()
    for row in range(key.shape[1]):
        column = key[:, row, :, :, None]
        state = state * decay[:, row, :, None, None]
        missing = (value[:, row] - (state * column).sum(-2)) * beta[:, row, :, None]
        state = state + column * missing[:, :, None]
    return state


_listener: ContextVar[list[Recurrence] | None] = ContextVar("recurrences of this forward", default=None)


@contextmanager
def listening() -> Iterator[list[Recurrence]]:
    """Collects what the recurrences of every layer are given, in order, while the model runs in here."""
    heard: list[Recurrence] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)


def install(mixers: Sequence[Any]) -> None:
    """Let `listening` hear the recurrences of these modules (`linear_attn` of each layer).

    transformers offers no hook between a mixer's projections and its recurrence, so the two functions
    that the mixer's file calls by global name are wrapped there, once; unheard, they do as before. Raises
    `InputError` for a file without them.
    """
    for name in {type(mixer).__module__ for mixer in mixers}:
        file: Any = sys.modules[name]
        for kernel in KERNELS:
            function = getattr(file, kernel, None)
            if function is None:
                raise InputError(
                    f"target: found no {kernel} in {name}, expected the recurrence of its layers"
                )
            if not hasattr(function, "truedraft_heard"):
                setattr(file, kernel, _heard(function))


def _heard(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        heard = _listener.get()
        if heard is not None:
            if not options.get("use_qk_l2norm_in_kernel"):
                raise InputError(
                    "target: found a recurrence over keys as they are, expected keys of unit length"
                )
            heard.append(Recurrence(key, value, options["g"], options["beta"], options["initial_state"]))
        return function(query, key, value, **options)

    kernel.truedraft_heard = True  # type: ignore[attr-defined]
    return kernel
