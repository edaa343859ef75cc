"""Train one drafter on the answers at hand: python train.py NAME [STEPS].

Continues from the last checkpoint (every 50 steps). STEPS: stop after so many more steps, 0 to write the
drafter as it is now.
"""

from __future__ import annotations

import sys

import torch

from data import Answer, answers, picked
from drafters.shapes import DrafterSpec
from drafters.stack import Drafter
from drafters.training import Trainer, adam
from export import write_drafter
from losses import Blocks, Tables, active_ids, block_loss, blocks_at, tokens_per_round
from settings import (
    CHECKPOINTS,
    DRAFTERS,
    EXPORTS,
    SAMPLED_IDS,
    STEP_ANCHORS,
    STEP_SEQUENCES,
    VOCAB_SIZE,
    WARM_UP,
)
from start import fresh_drafter, tables

MIXED_FROM = 0.7
"""Share of the steps after which DSpark's loss becomes the paper's."""

EXAMINED = 24
EXAMINED_ANCHORS = 16
EXAMINE_EVERY = 1000


def step_blocks(spec: DrafterSpec, train: list[Answer], step: int) -> tuple[list[Blocks], torch.Tensor]:
    """A step's blocks, and the ids that it samples beside the frequent ones."""
    generator = torch.Generator().manual_seed(spec.seed * 1_000_003 + step)
    blocks = []
    for number in picked(len(train), step, STEP_SEQUENCES, spec.seed):
        places = train[number].anchors
        order = torch.randperm(len(places), generator=generator)[:STEP_ANCHORS]
        blocks.append(blocks_at(train[number], places[order], spec.proposals))
    return blocks, torch.randint(VOCAB_SIZE, (SAMPLED_IDS,), generator=generator)


def examine(drafter: Drafter, frozen: Tables, held_out: list[Answer]) -> float:
    """Tokens per round on answers that are not trained on, teacher-forced."""
    lengths = []
    for answer in held_out[:EXAMINED]:
        places = answer.anchors
        spread = torch.linspace(0, len(places) - 1, min(EXAMINED_ANCHORS, len(places))).long()
        blocks = blocks_at(answer, places[spread], drafter.spec.proposals)
        lengths.append(tokens_per_round(drafter, frozen, blocks))
    return float(torch.cat(lengths).mean()) if lengths else float("nan")


def train(name: str, steps: int | None) -> None:
    """Run or continue a training, then write the drafter's directory."""
    torch.set_num_threads(1)
    spec, found = DRAFTERS[name], answers()
    frozen, model = tables(found)
    train_set = [answer for answer in found if not answer.held_out]
    held_out = [answer for answer in found if answer.held_out]
    drafter = fresh_drafter(spec, model, frozen.statistics.scale)
    del model
    optimizers = adam(drafter, spec.rate)
    path = CHECKPOINTS / f"{name}.safetensors"
    trainer = Trainer(drafter, spec.cycle, 0.3, path, optimizers, spec.cycles, WARM_UP)
    trainer.report(f"{len(train_set)} answers, {sum(len(a.anchors) for a in train_set)} anchors")
    last = trainer.steps if steps is None else min(trainer.steps, trainer.step + steps)
    average = 0.0
    while trainer.step < last:
        blocks, sampled = step_blocks(spec, train_set, trainer.step)
        ids = active_ids(frozen.statistics, blocks, sampled)
        total, value = sum(float(block.weights.sum()) for block in blocks), 0.0
        for block in blocks:
            mixed = trainer.progress() >= MIXED_FROM
            loss = block_loss(drafter, frozen, block, ids, mixed) / total
            loss.backward()
            value += float(loss.detach())
        trainer.apply()
        average = 0.9 * average + 0.1 * value if average else value
        if trainer.step % EXAMINE_EVERY == 0 or trainer.step == last:
            tau = examine(drafter, frozen, held_out)
            trainer.report(f"loss {average:.3f} held-out tokens per round {tau:.3f}")
        elif trainer.step % 10 == 0:
            trainer.report(f"loss {average:.3f}")
    trainer.save()
    write_drafter(drafter, frozen.statistics.scale, EXPORTS / name)


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
