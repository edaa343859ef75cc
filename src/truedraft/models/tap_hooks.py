"""Taps by forward hooks on a model's decoder layers, whatever the layers return."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from truedraft.contract import InputError


class Taps:
    """Catches the states that a drafter reads: `layers`, `states` as the axes `taps.layers` and `taps.state`.

    `inner`: the text model that owns `layers` and `embed_tokens`. -1 taps the embedding output. States:
    `residual` = output of the layer, `stream_mean` = mean of that over the residual streams of a model with
    hyper-connections, `layer_input` = what enters the layer (the same mean there). Hooks, not
    `output_hidden_states`: that one's last entry lies behind the final norm. Raises `InputError` for a state
    that the model does not have.
    """

    def __init__(self, inner: Any, layers: tuple[int, ...], states: tuple[str, ...], streams: bool) -> None:
        self.layers = layers
        self._wanted = tuple(zip(layers, states, strict=True))
        self._caught: dict[tuple[int, str], Tensor] = {}
        known = {"stream_mean", "layer_input"} if streams else {"residual", "layer_input"}
        for state in states:
            if state not in known:
                kind = "has residual streams" if streams else "has one residual stream"
                raise InputError(
                    f"taps.state={state}: the target {kind}, expected {' or '.join(sorted(known))}"
                )
        for layer, state in dict.fromkeys(self._wanted):
            self._hook(inner, layer, state)

    def _hook(self, inner: Any, layer: int, state: str) -> None:
        def output(_module: nn.Module, _inputs: Any, out: Any) -> None:
            self._caught[layer, state] = _one_stream(out[0] if isinstance(out, tuple) else out)

        def entry(_module: nn.Module, inputs: Any, options: dict[str, Any]) -> None:
            self._caught[layer, state] = _one_stream(inputs[0] if inputs else options["hidden_states"])

        module = inner.embed_tokens if layer < 0 else inner.layers[layer]
        if state == "layer_input" and layer >= 0:
            module.register_forward_pre_hook(entry, with_kwargs=True)
        else:
            module.register_forward_hook(output)

    def take(self, rows: int) -> list[Tensor]:
        """The states [rows, H] caught since the last call, one per tap; `RuntimeError` on other rows."""
        out = [self._caught[key][0] for key in self._wanted]
        self._caught.clear()
        for key, state in zip(self._wanted, out, strict=True):
            if state.shape[0] != rows:
                raise RuntimeError(f"tap {key}: found {state.shape[0]} rows, expected {rows}")
        return out


def _one_stream(state: Tensor) -> Tensor:
    """[1, n, H] of [1, n, H] or of [1, n, streams, H]."""
    return state.mean(2) if state.ndim == 4 else state


def concatenated(pieces: list[list[Tensor]]) -> Tensor:
    """Taps of all sequences, each a list of [n, H], as [N, ΣH] in the order of the taps."""
    return torch.cat([torch.cat(piece, -1) for piece in pieces])
