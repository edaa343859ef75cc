"""Train one drafter on anchors of evenly strided corpus windows: python train_drafter.py NAME."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpus import token_stream
from drafters.drafting import block_hidden, confidence_logits, corrected_logits
from drafters.stack import Drafter, Target
from drafters.training import Trainer, muon_and_adam
from export import load_target, write_drafter
from settings import (
    ANCHORS_PER_WINDOW,
    DRAFTER_BATCH,
    DRAFTERS,
    HELD_OUT_EVERY,
    HELD_OUT_PHASE,
    PAIR,
    PROPOSALS,
    STRIDE,
    TARGET_SHAPE,
    VOCAB_SIZE,
    WINDOW_TOKENS,
    WORK,
    DrafterSpec,
)

WARM = 0.7


@dataclass(frozen=True)
class Windows:
    """Corpus windows with the target's view of them; all tensors start with [windows, n]."""

    ids: Tensor
    features: Tensor
    final: Tensor
    best: Tensor
    anchors: list[Tensor]


@torch.no_grad()
def read_windows(target: Target, spec: DrafterSpec) -> Windows:
    """Run the target over windows at STRIDE distance (each moved a little) and keep its taps."""
    stream = torch.tensor(token_stream())
    generator = torch.Generator().manual_seed(spec.seed)
    last = len(stream) - WINDOW_TOKENS
    starts = torch.arange(0, last + STRIDE, STRIDE)
    moved = torch.randint(-STRIDE // 2, STRIDE // 2, starts.shape, generator=generator)
    starts = (starts + moved).clamp(0, last)
    ids = stream[starts[:, None] + torch.arange(WINDOW_TOKENS)]
    features, final, best = [], [], []
    for rows in ids.split(8):
        logits, outputs = target(rows)
        features.append(torch.cat([outputs[tap] for tap in spec.taps], -1))
        final.append(target.norm(outputs[-1]))
        best.append(logits.argmax(-1))
    places = torch.arange(2, WINDOW_TOKENS - PROPOSALS)
    anchors = []
    for start in starts.tolist():
        allowed = places[(start + places) % HELD_OUT_EVERY != HELD_OUT_PHASE]
        anchors.append(allowed[torch.randperm(len(allowed), generator=generator)])
    return Windows(ids, torch.cat(features), torch.cat(final), torch.cat(best), anchors)


def fresh_drafter(spec: DrafterSpec) -> Drafter:
    """Return an untrained drafter."""
    torch.manual_seed(spec.seed)
    drafter = Drafter(spec, VOCAB_SIZE, TARGET_SHAPE.hidden)
    for name, module in drafter.named_modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Linear) and "markov" not in name:
            nn.init.normal_(module.weight, std=0.5 * module.in_features**-0.5)
    return drafter


def batch_of(windows: Windows, step: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return window numbers [b] and anchors [b, a]; anchors of a window cycle through all."""
    count, picked, anchors = len(windows.ids), [], []
    for index in range(step * DRAFTER_BATCH, (step + 1) * DRAFTER_BATCH):
        epoch, place = divmod(index, count)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        window = int(torch.randperm(count, generator=generator)[place])
        order = windows.anchors[window]
        turn = torch.arange(epoch * ANCHORS_PER_WINDOW, (epoch + 1) * ANCHORS_PER_WINDOW)
        picked.append(window)
        anchors.append(order[turn % len(order)])
    return torch.tensor(picked), torch.stack(anchors)


def loss_of(
    drafter: Drafter,
    table: Tensor,
    windows: Windows,
    picked: Tensor,
    anchors: Tensor,
    warm: bool,
) -> tuple[Tensor, float]:
    """Return the loss and the teacher-forced tokens per round; warm: DSpark still without L1.

    A slot counts while the text before it is what the target itself would have written.
    """
    rows, slots = picked[:, None, None], torch.arange(PROPOSALS)
    places = anchors[..., None] + slots
    previous, following = windows.ids[rows, places], windows.ids[rows, places + 1]
    best = windows.best[rows, places]
    agrees = (best == following).long().cumprod(-1)
    valid = F.pad(agrees[..., :-1], (1, 0), value=1).float()
    weights = valid * torch.exp(-slots / 4.0)
    hidden = block_hidden(drafter, table, windows.features[picked], anchors, previous[..., 0])
    logits = corrected_logits(drafter, F.linear(hidden, table), previous)
    with torch.no_grad():
        right = (logits.argmax(-1) == best).float() * valid
        length = 1 + right.cumprod(-1).sum(-1).mean()
    cross = F.cross_entropy(logits.flatten(0, 2), best.flatten(), reduction="none")
    loss = cross.view_as(weights)
    if drafter.spec.family == "dspark":
        wanted = F.linear(windows.final[rows, places], table).softmax(-1)
        distance = (logits.softmax(-1) - wanted).abs().sum(-1)
        label = (1 - 0.5 * distance).detach().clamp(0, 1)
        guess = confidence_logits(drafter, hidden, previous)
        sure = F.binary_cross_entropy_with_logits(guess, label, reduction="none")
        loss = sure + (loss if warm else 0.1 * loss + 0.9 * distance)
    return (loss * weights).sum() / weights.sum(), float(length)


def train(name: str) -> None:
    """Run (or continue) the training of one drafter and write its directory."""
    spec, target = DRAFTERS[name], load_target()
    table = target.embed_tokens.weight
    drafter = fresh_drafter(spec)
    trainer = Trainer(
        drafter,
        spec.cycle,
        0.4,
        WORK / f"{name}.safetensors",
        muon_and_adam(drafter, spec.rate),
        spec.cycles,
    )
    windows = read_windows(target, spec)
    trainer.report(f"{len(windows.ids)} windows ready")
    average = tau = 0.0
    while trainer.step < trainer.steps:
        picked, anchors = batch_of(windows, trainer.step, spec.seed)
        warm = trainer.progress() < WARM
        loss, length = loss_of(drafter, table, windows, picked, anchors, warm)
        trainer.update(loss)
        average = 0.9 * average + 0.1 * float(loss.detach()) if average else float(loss.detach())
        tau = 0.9 * tau + 0.1 * length if tau else length
        if trainer.step % 25 == 0:
            trainer.report(f"loss {average:.3f} teacher-forced tau {tau:.2f}")
    write_drafter(drafter, target, PAIR / name)


if __name__ == "__main__":
    train(sys.argv[1])
