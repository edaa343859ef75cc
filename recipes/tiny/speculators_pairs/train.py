"""Train one drafter with the library's forward and loss: python -m speculators_pairs.train NAME.

Only the loop, the optimiser and the data order are ours. A killed run continues from its last
checkpoint in work/.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from speculators.losses import resolve_loss_config
from speculators.model import SpeculatorModel
from torch import Tensor

from drafters.training import Trainer, muon_and_adam
from settings import WINDOW_TOKENS, WORK
from speculators_pairs.export import write
from speculators_pairs.features import load_features
from speculators_pairs.models import fresh
from speculators_pairs.plan import (
    ANCHORS_PER_WINDOW,
    FIRST_COUNTED,
    GAMMA,
    PLANS,
    WARM,
    Plan,
)

CROSS_ENTROPY = resolve_loss_config("ce", "eager")
MIXED = resolve_loss_config('{"ce": 0.1, "tv": 0.9}', "eager")
TOTAL_VARIATION = resolve_loss_config("tv", "eager")["tv"][0]


def windows_of(plan: Plan, step: int, count: int) -> list[int]:
    """Return a step's window numbers; an epoch visits all in random order."""
    picked = []
    for index in range(step * plan.windows, (step + 1) * plan.windows):
        epoch, place = divmod(index, count)
        generator = torch.Generator().manual_seed(plan.seed * 1_000_003 + epoch)
        picked.append(int(torch.randperm(count, generator=generator)[place]))
    return picked


def block_loss(
    plan: Plan, model: SpeculatorModel, ids: Tensor, states: Tensor, last: Tensor, warm: bool
) -> tuple[Tensor, float]:
    """Return the library's loss and tokens per round for ANCHORS_PER_WINDOW random anchors."""
    counted = torch.arange(WINDOW_TOKENS) >= FIRST_COUNTED
    extra: dict[str, Any] = {"loss_config": CROSS_ENTROPY if warm else MIXED}
    if plan.algorithm == "dspark":
        extra["tv_loss_fn"] = TOTAL_VARIATION
    else:
        extra["loss_config"] = CROSS_ENTROPY
    _, loss, metrics = model(
        hidden_states=states[None],
        input_ids=ids[None],
        loss_mask=counted[None],
        verifier_last_hidden_states=last[None],
        document_ids=torch.zeros(1, WINDOW_TOKENS, dtype=torch.long),
        max_anchors=ANCHORS_PER_WINDOW,
        gamma=GAMMA,
        **extra,
    )
    return loss, float(metrics["eal_sum"] / metrics["eal_total"])


def eagle_loss(
    plan: Plan, model: SpeculatorModel, ids: Tensor, states: Tensor, last: Tensor
) -> tuple[Tensor, float]:
    """Return the library's loss over all rows (its own shift) and the tokens per round.

    Rows whose next token is not in the draft vocabulary do not count.
    """
    counted = torch.arange(WINDOW_TOKENS) >= FIRST_COUNTED
    assert model.t2d is not None
    counted[:-1] &= model.t2d[ids[1:]]
    size = WINDOW_TOKENS - 1
    _, loss, metrics = model(
        hidden_states=states[None, :-1],
        input_ids=ids[None, 1:],
        loss_mask=counted[None, 1:],
        verifier_last_hidden_states=last[None, 1:],
        document_ids=torch.zeros(1, size, dtype=torch.long),
        position_ids=torch.arange(1, size + 1)[None],
        ttt_steps=plan.proposals,
        ttt_step_loss_decay=1.0,
        loss_config=CROSS_ENTROPY,
    )
    length, reached = 1.0, 1.0
    for step in range(plan.proposals):
        total = metrics[f"cond_acc_{step}_total"].clamp(min=1)
        reached *= float(metrics[f"cond_acc_{step}_sum"] / total)
        length += reached
    return loss / plan.proposals, length


def train(name: str) -> None:
    """Run (or continue) the training of one drafter and put it in place."""
    torch.set_num_threads(1)
    plan = PLANS[name]
    model = fresh(plan).train()
    trainer = Trainer(
        model,
        plan.cycle,
        0.4,
        WORK / f"{name}.safetensors",
        muon_and_adam(model, plan.rate),
        plan.cycles,
    )
    ids, states, last = load_features(plan.aux)
    average = tau = 0.0
    while trainer.step < trainer.steps:
        torch.manual_seed(plan.seed * 1_000_003 + trainer.step)
        loss, length = torch.zeros(()), 0.0
        for window in windows_of(plan, trainer.step, len(ids)):
            rows = ids[window], states[window], last[window]
            if plan.algorithm == "eagle3":
                part, tokens = eagle_loss(plan, model, *rows)
            else:
                part, tokens = block_loss(plan, model, *rows, trainer.progress() < WARM)
            loss, length = loss + part / plan.windows, length + tokens / plan.windows
        trainer.update(loss)
        average = 0.9 * average + 0.1 * float(loss.detach()) if average else float(loss.detach())
        tau = 0.9 * tau + 0.1 * length if tau else length
        if trainer.step % 25 == 0:
            trainer.report(f"loss {average:.3f} teacher-forced tau {tau:.2f}")
    write(plan, model)


if __name__ == "__main__":
    train(sys.argv[1])
