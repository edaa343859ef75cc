"""The target's hidden states on evenly strided corpus windows, captured once to disk."""

from __future__ import annotations

import os
from functools import partial

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from corpus import token_stream
from settings import PAIR, STRIDE, TARGET_SHAPE, WINDOW_TOKENS
from speculators_pairs.plan import AUX_IDS, FEATURES

SEED = 20


class Target:
    """Transformers' own target in fp32; hooks keep every layer's output.

    The last one is the residual stream before the final norm, as the library's data has it.
    """

    def __init__(self) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(PAIR / "target", dtype=torch.float32)
        self.model.eval().requires_grad_(False)
        self.states: dict[int, Tensor] = {}
        for aux, layer in enumerate(self.model.model.layers, 1):
            layer.register_forward_hook(partial(self._keep, aux))

    def _keep(self, aux: int, _layer: nn.Module, _inputs: object, output: Tensor) -> None:
        self.states[aux] = output

    @torch.no_grad()
    def __call__(self, ids: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
        """Map ids [b, n] to logits [b, n, vocab] and states by aux id, each [b, n, hidden]."""
        logits = self.model(ids, use_cache=False).logits
        return logits, dict(self.states)


def capture() -> None:
    """Write the window ids, their first positions and the needed states to FEATURES."""
    stream, target = torch.tensor(token_stream()), Target()
    generator = torch.Generator().manual_seed(SEED)
    last = len(stream) - WINDOW_TOKENS
    starts = torch.arange(0, last + STRIDE, STRIDE)
    moved = torch.randint(-STRIDE // 2, STRIDE // 2, starts.shape, generator=generator)
    starts = (starts + moved).clamp(0, last)
    ids = stream[starts[:, None] + torch.arange(WINDOW_TOKENS)]
    kept: dict[int, list[Tensor]] = {aux: [] for aux in {*AUX_IDS, TARGET_SHAPE.layers}}
    agreed = 0.0
    for rows in ids.split(8):
        logits, states = target(rows)
        for aux, parts in kept.items():
            parts.append(states[aux])
        agreed += float((logits[:, 32:-1].argmax(-1) == rows[:, 33:]).float().mean(-1).sum())
    print(f"{len(ids)} windows, target agrees with the text at {agreed / len(ids):.4f}", flush=True)
    states = {f"state.{aux}": torch.cat(parts) for aux, parts in kept.items()}
    for name, tensor in sorted(states.items()):
        print(f"{name}: rms {float(tensor.pow(2).mean().sqrt()):.2f}", flush=True)
    FEATURES.parent.mkdir(exist_ok=True)
    temporary = FEATURES.with_suffix(".new")
    save_file({"ids": ids, "starts": starts, **states}, str(temporary))
    os.replace(temporary, FEATURES)


def load_features(aux: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return window ids [w, n], concatenated states [w, n, taps * hidden] and the last state."""
    if not FEATURES.exists():
        capture()
    content = load_file(str(FEATURES))
    states = torch.cat([content[f"state.{number}"] for number in aux], -1)
    return content["ids"], states, content[f"state.{TARGET_SHAPE.layers}"]


if __name__ == "__main__":
    capture()
