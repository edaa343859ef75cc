"""Train the target on the corpus until it has memorised it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from corpus import token_stream
from drafters.stack import Target
from drafters.training import Trainer, muon_and_adam
from export import write_target
from settings import (
    PAIR,
    TARGET_BATCH,
    TARGET_SEED,
    TARGET_SHAPE,
    TARGET_STEPS,
    VOCAB_SIZE,
    WINDOW_TOKENS,
    WORK,
)
from windows import window_starts


def fresh_target() -> Target:
    """Return an untrained target with normal(0, 0.02) embeddings and fan-in scaled matrices."""
    torch.manual_seed(TARGET_SEED)
    target = Target(TARGET_SHAPE, VOCAB_SIZE)
    for module in target.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.5 * module.in_features**-0.5)
    return target


def train() -> None:
    """Run (or continue) the training and write the target directory."""
    stream = torch.tensor(token_stream())
    target = fresh_target()
    trainer = Trainer(
        target, TARGET_STEPS, 0.6, WORK / "target.safetensors", muon_and_adam(target, 0.01)
    )
    average = 0.0
    while trainer.step < TARGET_STEPS:
        starts = window_starts(len(stream), TARGET_BATCH, trainer.step, TARGET_SEED)
        ids = stream[starts[:, None] + torch.arange(WINDOW_TOKENS)]
        logits, _ = target(ids)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        trainer.update(loss)
        value = float(loss.detach())
        average = 0.95 * average + 0.05 * value if average else value
        if trainer.step % 20 == 0:
            trainer.report(f"loss {average:.3f}")
    write_target(target, PAIR / "target")


if __name__ == "__main__":
    train()
