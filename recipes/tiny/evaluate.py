"""Measure greedy tokens per round and confidence calibration by real sequential decoding."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

import torch

from confidence import Pairs, calibration, held_out_pairs
from corpus import UNSEEN, documents, load_tokenizer
from drafters.drafting import confidence_logits, propose
from drafters.repetition import repetition
from drafters.stack import Drafter, Target
from export import load_drafter, load_target
from settings import EOS_ID, MAX_NEW_TOKENS, PAIR


@dataclass
class Decoded:
    """One finished generation: new ids, tokens per round and (confidence, accepted) pairs."""

    ids: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    confidence: Pairs = field(default_factory=list)

    @property
    def tau(self) -> float:
        """Return the mean tokens per round of this generation."""
        return sum(self.lengths) / len(self.lengths)


@torch.no_grad()
def decode(target: Target, drafter: Drafter, prompt: list[int]) -> Decoded:
    """Draft, verify, accept until MAX_NEW_TOKENS or EOS; every round re-reads the whole text.

    A round counts accepted + 1 tokens; a round that accepts EOS counts without a bonus. The last
    round is counted in full although its surplus tokens are cut off.
    """
    table, done = target.embed_tokens.weight, Decoded()
    logits, outputs = target(torch.tensor([prompt]))
    text = [*prompt, int(logits[0, -1].argmax())]
    while len(text) - len(prompt) < MAX_NEW_TOKENS and text[-1] != EOS_ID:
        anchor = len(text) - 1
        features = torch.cat([outputs[tap][:, :anchor] for tap in drafter.spec.taps], -1)
        anchors, ids = torch.tensor([[anchor]]), torch.tensor([[text[-1]]])
        tokens, _, hidden = propose(drafter, table, features, anchors, ids)
        drafted = tokens.flatten().tolist()
        logits, outputs = target(torch.tensor([text + drafted]))
        best = logits[0, anchor:].argmax(-1).tolist()
        accepted = 0
        while accepted < len(drafted) and drafted[accepted] == best[accepted]:
            accepted += 1
            if best[accepted - 1] == EOS_ID:
                break
        if drafter.spec.family == "dspark":
            previous = torch.cat((ids[..., None], tokens[..., :-1]), -1)
            sure = confidence_logits(drafter, hidden, previous).sigmoid().flatten().tolist()
            reached = min(accepted + 1, len(drafted))
            done.confidence += [(sure[slot], slot < accepted) for slot in range(reached)]
        ended = bool(accepted) and best[accepted - 1] == EOS_ID
        new = best[: accepted + (not ended)]
        text += new
        done.lengths.append(len(new))
    done.ids = text[len(prompt) :][:MAX_NEW_TOKENS]
    return done


def load_prompts() -> list[tuple[str, list[int]]]:
    """Return (id, token ids) of the shipped prompts."""
    tokenizer = load_tokenizer()
    content = json.loads((PAIR / "prompts.json").read_text())
    return [(p["id"], tokenizer.encode(p["text"]).ids) for p in content["prompts"]]


def unseen_prompts(length: int = 160, count: int = 8) -> list[tuple[str, list[int]]]:
    """Return the first tokens of the first unseen documents."""
    tokenizer = load_tokenizer()
    texts = documents(UNSEEN)[:count]
    return [(f"c{i:02d}", tokenizer.encode(t).ids[:length]) for i, t in enumerate(texts)]


def report(target: Target, name: str, label: str, prompts: list[tuple[str, list[int]]]) -> None:
    """Decode all prompts with one drafter and print the figures."""
    drafter = load_drafter(name)
    runs = [decode(target, drafter, ids) for _, ids in prompts]
    lengths = [length for run in runs for length in run.lengths]
    taus = sorted(run.tau for run in runs)
    pooled = sum(lengths) / len(lengths)
    repeats = [repetition(run.ids) for run in runs]
    print(
        f"{name} {label}: tau pooled {pooled:.2f} mean {sum(taus) / len(taus):.2f} "
        f"min {taus[0]:.2f} max {taus[-1]:.2f} rounds {len(lengths)}; "
        f"repetition mean {sum(repeats) / len(repeats):.3f} max {max(repeats):.3f}; "
        f"ended by EOS {sum(run.ids[-1] == EOS_ID for run in runs)}",
        flush=True,
    )
    each = [f"{key}:{run.tau:.2f}" for (key, _), run in zip(prompts, runs, strict=True)]
    print("  per prompt", " ".join(each))
    calibration([pair for run in runs for pair in run.confidence])


if __name__ == "__main__":
    model = load_target()
    for drafter_name in sys.argv[1:] or ["dflash", "dflash-full", "dspark"]:
        report(model, drafter_name, "evaluation prompts", load_prompts())
        report(model, drafter_name, "unseen text", unseen_prompts())
        if drafter_name == "dspark":
            print("dspark held-out anchors of the corpus")
            calibration(held_out_pairs(model, load_drafter("dspark")))
