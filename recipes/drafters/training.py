"""Optimiser, learning-rate plan and checkpoints of all trainings."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn


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


def muon_and_adam(model: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """Muon on the matrices of layers and fc, AdamW at 0.005 on the rest."""
    matrices, others = split_parameters(model)
    return [
        Muon(matrices, rate),
        torch.optim.AdamW(others, lr=0.005, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def adam(model: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """AdamW on everything: matrices of layers and fc at `rate`, the rest at 0.005."""
    matrices, others = split_parameters(model)
    return [
        torch.optim.AdamW(matrices, lr=rate, betas=(0.9, 0.95), weight_decay=0.01),
        torch.optim.AdamW(others, lr=0.005, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Trained matrices of layers and fc, and all other trained parameters."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in named if name.startswith(("layers.", "fc.")) and p.dim() == 2]
    ids = {id(p) for p in matrices}
    return matrices, [p for _, p in named if id(p) not in ids]


class Trainer:
    """A resumable step counter around a model and its optimisers."""

    def __init__(
        self,
        model: nn.Module,
        cycle: int,
        flat: float,
        checkpoint: Path,
        optimizers: Sequence[torch.optim.Optimizer],
        cycles: int = 1,
        warm_up: int = 20,
    ) -> None:
        self.model, self.cycle, self.flat, self.checkpoint = model, cycle, flat, checkpoint
        self.steps, self.warm_up = cycle * cycles, warm_up
        self.optimizers = optimizers
        self.base = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
        self.step = 0
        self.started = time.monotonic()
        if checkpoint.exists():
            self.step = load_checkpoint(checkpoint, model, optimizers)

    def progress(self) -> float:
        """Return how far the current cycle is, 0 to 1."""
        return self.step % self.cycle / self.cycle

    def factor(self) -> float:
        """Return the learning-rate factor: each cycle warm-up steps, flat, linear to 2 %."""
        decay = 1.0 - 0.98 * max(0.0, self.progress() - self.flat) / (1.0 - self.flat)
        return min(1.0, (self.step % self.cycle + 1) / self.warm_up) * decay

    def update(self, loss: Tensor) -> None:
        """Back-propagate, clip to norm 1 and take one step."""
        loss.backward()
        self.apply()

    def apply(self) -> None:
        """Clip the gradients that are there to norm 1 and take one step."""
        for optimizer, base in zip(self.optimizers, self.base, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = base * self.factor()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        if self.step % 50 == 0 or self.step == self.steps:
            self.save()

    def save(self) -> None:
        """Write the checkpoint."""
        save_checkpoint(self.checkpoint, self.model, self.optimizers, self.step)

    def report(self, text: str) -> None:
        """Print one progress line."""
        seconds = time.monotonic() - self.started
        name = self.checkpoint.stem
        print(f"{name} step {self.step}/{self.steps} {seconds:.0f}s {text}", flush=True)


def save_checkpoint(
    path: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], step: int
) -> None:
    """Write weights and optimiser state; an interruption keeps the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{index}.{key}": value for key, value in state.items()}
    temporary = path.with_suffix(".new")
    contiguous = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, str(temporary), metadata={"step": str(step)})
    os.replace(temporary, path)


def load_checkpoint(
    path: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> int:
    """Restore what `save_checkpoint` wrote; the number of steps taken."""
    weights: dict[str, Tensor] = {}
    states: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimizers]
    with safe_open(str(path), "pt") as file:
        step = int(file.metadata()["step"])
        for name in file.keys():  # noqa: SIM118
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = file.get_tensor(name)
            else:
                number, index, key = rest.split(".")
                states[int(number)].setdefault(int(index), {})[key] = file.get_tensor(name)
    model.load_state_dict(weights)
    for optimizer, state in zip(optimizers, states, strict=True):
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    return step
