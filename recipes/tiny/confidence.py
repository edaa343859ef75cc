"""Compare DSpark's confidence with real acceptance."""

from __future__ import annotations

import torch

from corpus import token_stream
from drafters.drafting import confidence_logits, propose
from drafters.stack import Drafter, Target
from settings import HELD_OUT_EVERY, HELD_OUT_PHASE, PROPOSALS, WINDOW_TOKENS

Pairs = list[tuple[float, bool]]


def calibration(pairs: Pairs, bins: int = 10) -> None:
    """Print the expected calibration error and one line per filled bin; nothing if no pairs."""
    if not pairs:
        return
    values, hits = torch.tensor([p for p, _ in pairs]), torch.tensor([float(a) for _, a in pairs])
    index = (values * bins).long().clamp(max=bins - 1)
    error, lines = 0.0, []
    for number in range(bins):
        inside = index == number
        if inside.any():
            sure, real = float(values[inside].mean()), float(hits[inside].mean())
            error += float(inside.float().mean()) * abs(sure - real)
            lines.append(f"n {int(inside.sum()):5d} confidence {sure:.3f} accepted {real:.3f}")
    print(f"  confidence ECE {error:.3f} over {len(pairs)} reached slots")
    print("\n".join(f"    {line}" for line in lines), flush=True)


@torch.no_grad()
def held_out_pairs(target: Target, drafter: Drafter, windows: int = 60) -> Pairs:
    """Return (confidence, accepted) of reached slots at corpus anchors never used in training.

    A slot is reached if everything before it was accepted and is the corpus text.
    """
    stream, table = torch.tensor(token_stream()), target.embed_tokens.weight
    pairs: Pairs = []
    for start in torch.linspace(0, len(stream) - WINDOW_TOKENS, windows).long().tolist():
        ids = stream[start : start + WINDOW_TOKENS]
        places = torch.arange(16, WINDOW_TOKENS - PROPOSALS)
        places = places[(start + places) % HELD_OUT_EVERY == HELD_OUT_PHASE]
        logits, outputs = target(ids[None])
        features = torch.cat([outputs[tap] for tap in drafter.spec.taps], -1)
        tokens, _, hidden = propose(drafter, table, features, places[None], ids[places][None])
        previous = torch.cat((ids[places][:, None], tokens[0, :, :-1]), -1)
        sure = confidence_logits(drafter, hidden[0], previous).sigmoid()
        slots = places[:, None] + torch.arange(PROPOSALS)
        best = logits[0].argmax(-1)[slots]
        right = tokens[0] == best
        onward = (right & (best == ids[slots + 1])).long().cumprod(-1).bool()
        reached = torch.cat((torch.ones_like(right[:, :1]), onward[:, :-1]), -1)
        pairs += list(zip(sure[reached].tolist(), right[reached].tolist(), strict=True))
    return pairs
