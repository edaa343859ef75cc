"""Optimizer, learning-rate plan, strided windows and atomic checkpoints for both trainings."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from settings import STRIDE, WINDOW_TOKENS


def orthogonalise(matrices: Tensor, rounds: int = 5) -> Tensor:
    """Newton-Schulz iteration of Muon in fp32; matrices [k, rows, columns]."""
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    for _ in range(rounds):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon for the matrices of a stack; equal shapes are orthogonalised together."""

    def __init__(self, params: list[nn.Parameter], lr: float = 0.01) -> None:
        super().__init__(params, {"lr": lr, "momentum": 0.95, "weight_decay": 0.01})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Apply one update."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for p in group["params"]:
                by_shape.setdefault(p.shape, []).append(p)
            for shape, params in by_shape.items():
                updates = [self._momentum(p, group["momentum"]) for p in params]
                steps = orthogonalise(torch.stack(updates))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for p, update in zip(params, steps, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=scale)

    def _momentum(self, p: nn.Parameter, momentum: float) -> Tensor:
        state = self.state[p]
        buffer = state.setdefault("momentum", torch.zeros_like(p))
        buffer.lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(buffer, momentum)


class Trainer:
    """Muon on layer matrices, AdamW on the rest, and a resumable step counter."""

    def __init__(
        self,
        model: nn.Module,
        cycle: int,
        flat: float,
        checkpoint: Path,
        cycles: int = 1,
        rate: float = 0.01,
    ) -> None:
        self.model, self.cycle, self.flat, self.checkpoint = model, cycle, flat, checkpoint
        self.steps = cycle * cycles
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        matrices = [p for n, p in named if n.startswith(("layers.", "fc.")) and p.dim() == 2]
        ids = {id(p) for p in matrices}
        others = [p for _, p in named if id(p) not in ids]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices, rate),
            torch.optim.AdamW(others, lr=0.005, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.base = [rate, 0.005]
        self.step = 0
        self.started = time.monotonic()
        if checkpoint.exists():
            state: dict[str, Any] = torch.load(checkpoint)
            model.load_state_dict(state["model"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            self.step = state["step"]

    def progress(self) -> float:
        """Return how far the current cycle is, 0 to 1."""
        return self.step % self.cycle / self.cycle

    def factor(self) -> float:
        """Return the learning-rate factor: each cycle 20 warm-up steps, flat, linear to 2 %."""
        decay = 1.0 - 0.98 * max(0.0, self.progress() - self.flat) / (1.0 - self.flat)
        return min(1.0, (self.step % self.cycle + 1) / 20) * decay

    def update(self, loss: Tensor) -> None:
        """Back-propagate, clip to norm 1 and take one step."""
        for optimizer, base in zip(self.optimizers, self.base, strict=True):
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = base * self.factor()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        if self.step % 50 == 0 or self.step == self.steps:
            self.save()

    def save(self) -> None:
        """Write the checkpoint through a rename, so that an interruption keeps the old one."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
        }
        temporary = self.checkpoint.with_suffix(".new")
        torch.save(state, temporary)
        os.replace(temporary, self.checkpoint)

    def report(self, text: str) -> None:
        """Print one progress line."""
        seconds = time.monotonic() - self.started
        name = self.checkpoint.stem
        print(f"{name} step {self.step}/{self.steps} {seconds:.0f}s {text}", flush=True)


def window_starts(length: int, batch: int, step: int, seed: int) -> Tensor:
    """Return the starts [batch] of a step's windows.

    One epoch visits windows at STRIDE distance, with a phase drawn per epoch, in random order;
    the first and last window of an epoch touch the ends of the text.
    """
    last = length - WINDOW_TOKENS
    per_epoch = last // STRIDE + 2
    picked = []
    for index in range(step * batch, (step + 1) * batch):
        epoch, place = divmod(index, per_epoch)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        phase = int(torch.randint(STRIDE, (1,), generator=generator))
        order = torch.randperm(per_epoch, generator=generator)
        picked.append(min(max(int(order[place]) * STRIDE - phase, 0), last))
    return torch.tensor(picked)
