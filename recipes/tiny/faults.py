"""Show what wrong conventions cost: tokens per round on the evaluation prompts, paired."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from corpus import token_stream
from drafters.drafting import propose
from drafters.stack import Drafter, Target
from evaluate import load_prompts
from export import load_drafter, load_target
from settings import (
    DRAFTERS,
    EOS_ID,
    MASK_ID,
    MAX_NEW_TOKENS,
    PROPOSALS,
    RESERVED_IDS,
    TARGET_SHAPE,
    VOCAB_SIZE,
    DrafterSpec,
)


def with_spec(drafter: Drafter, spec: DrafterSpec) -> Drafter:
    """Return the same weights under other conventions."""
    other = Drafter(spec, VOCAB_SIZE, TARGET_SHAPE.hidden)
    other.load_state_dict(drafter.state_dict())
    return other.eval().requires_grad_(False)


@torch.no_grad()
def tau(target: Target, drafter: Drafter, prompt: list[int], path: list[int], mask: int) -> float:
    """Replay the rounds along the known greedy path; a round counts at most what is left."""
    text = torch.tensor([prompt + path])
    _, outputs = target(text)
    features = torch.cat([outputs[tap] for tap in drafter.spec.taps], -1)
    anchors = torch.arange(len(prompt), text.shape[1] - 1)[None]
    tokens, _, _ = propose(
        drafter, target.embed_tokens.weight, features, anchors, text[:, anchors[0]], mask_id=mask
    )
    padded = F.pad(text, (0, PROPOSALS), value=-1)
    right = padded[0, anchors[0][:, None] + 1 + torch.arange(PROPOSALS)] == tokens[0]
    accepted = right.long().cumprod(-1).sum(-1).tolist()
    place, rounds = 0, 0
    while place < len(path) - 1:
        place, rounds = place + accepted[place] + 1, rounds + 1
    return (len(path) - 1) / rounds


@torch.no_grad()
def greedy_path(target: Target, prompt: list[int]) -> list[int]:
    """Return the target's greedy continuation: the corpus text after the prompt, checked."""
    stream = token_stream()
    places = range(len(stream) - len(prompt))
    start = next(p for p in places if stream[p : p + len(prompt)] == prompt) + len(prompt)
    path = stream[start : start + MAX_NEW_TOKENS]
    path = path[: path.index(EOS_ID) + 1] if EOS_ID in path else path
    best = target(torch.tensor([prompt + path]))[0][0, len(prompt) - 1 : -1].argmax(-1)
    if best.tolist() != path:
        raise ValueError("a prompt's greedy continuation is not the corpus text")
    return path


def cases(drafter: Drafter) -> dict[str, tuple[Drafter, int]]:
    """Return the faults of one drafter as (drafter, mask id)."""
    spec = drafter.spec
    shape = replace(spec.shape, theta=1_000_000.0)
    anchor_first = replace(spec, width=PROPOSALS, first_slot=0)
    fill_in = replace(spec, width=PROPOSALS + 1, first_slot=1)
    specs = {
        "taps +1": replace(spec, taps=tuple(tap + 1 for tap in spec.taps)),
        "taps reversed": replace(spec, taps=spec.taps[::-1]),
        "slot convention": anchor_first if spec.first_slot else fill_in,
        "rope theta 1e6": replace(spec, shape=shape),
    }
    if spec.sliding_window:
        specs["window dropped"] = replace(spec, sliding_window=10_000)
        specs["window W+1"] = replace(spec, sliding_window=spec.sliding_window + 1)
    found = {"none": (drafter, MASK_ID)}
    found |= {name: (with_spec(drafter, changed), MASK_ID) for name, changed in specs.items()}
    found["mask id 0 (EOS)"] = (drafter, 0)
    found["mask id 2 (never used)"] = (drafter, RESERVED_IDS[0])
    if spec.markov_rank:
        plain = with_spec(drafter, spec)
        torch.nn.init.zeros_(plain.markov_head.markov_w2.weight)
        found["no Markov"] = (plain, MASK_ID)
    return found


def main() -> None:
    """Print one line per drafter and fault."""
    target = load_target()
    prompts = [(ids, greedy_path(target, ids)) for _, ids in load_prompts()]
    for name in DRAFTERS:
        base: list[float] = []
        for fault, (drafter, mask) in cases(load_drafter(name)).items():
            taus = [tau(target, drafter, prompt, path, mask) for prompt, path in prompts]
            base = base or taus
            change = torch.tensor(taus) - torch.tensor(base)
            error = float(change.std() / len(taus) ** 0.5)
            print(
                f"{name} | {fault} | {sum(taus) / len(taus):.2f} | {float(change.mean()):+.2f} +- "
                f"{error:.2f} | {int((change < 0).sum())}/{int((change == 0).sum())}/"
                f"{int((change > 0).sum())}",
                flush=True,
            )


if __name__ == "__main__":
    main()
