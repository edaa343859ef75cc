"""Free-running tokens per round of shipped drafters: python -m speculators_pairs.evaluate."""

from __future__ import annotations

import sys

import torch
from speculators.model import SpeculatorModel

from evaluate import load_prompts, unseen_prompts
from settings import EOS_ID, MAX_NEW_TOKENS
from speculators_pairs.drafting import propose
from speculators_pairs.features import Target
from speculators_pairs.models import load
from speculators_pairs.plan import PLANS, Plan


def decode(target: Target, plan: Plan, model: SpeculatorModel, prompt: list[int]) -> list[int]:
    """Return the tokens per round, counted as in recipes/tiny/evaluate.py.

    Draft, verify, accept until MAX_NEW_TOKENS or EOS; a round that accepts EOS has no bonus.
    """
    logits, states = target(torch.tensor([prompt]))
    text, lengths = [*prompt, int(logits[0, -1].argmax())], []
    while len(text) - len(prompt) < MAX_NEW_TOKENS and text[-1] != EOS_ID:
        drafted = propose(plan, model, states, text).tokens
        logits, states = target(torch.tensor([text + drafted]))
        best = logits[0, len(text) - 1 :].argmax(-1).tolist()
        accepted = 0
        while accepted < len(drafted) and drafted[accepted] == best[accepted]:
            accepted += 1
            if best[accepted - 1] == EOS_ID:
                break
        ended = bool(accepted) and best[accepted - 1] == EOS_ID
        new = best[: accepted + (not ended)]
        text += new
        lengths.append(len(new))
    return lengths


def report(target: Target, name: str, label: str, prompts: list[tuple[str, list[int]]]) -> None:
    """Decode all prompts with one drafter and print the figures."""
    plan = PLANS[name]
    model = load(plan)
    runs = [decode(target, plan, model, ids) for _, ids in prompts]
    lengths = [length for run in runs for length in run]
    taus = sorted(sum(run) / len(run) for run in runs)
    print(
        f"{name} {label}: tau pooled {sum(lengths) / len(lengths):.2f} "
        f"mean {sum(taus) / len(taus):.2f} min {taus[0]:.2f} max {taus[-1]:.2f} "
        f"rounds {len(lengths)}",
        flush=True,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    verifier = Target()
    for drafter in sys.argv[1:] or list(PLANS):
        report(verifier, drafter, "evaluation prompts", load_prompts())
        report(verifier, drafter, "unseen text", unseen_prompts())
