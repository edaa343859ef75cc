"""Golden proposals on unseen text, from the library's forward on the shipped fp16 weights."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

import torch

from golden import MARGIN, contexts
from settings import PAIR
from speculators_pairs.drafting import propose
from speculators_pairs.features import Target
from speculators_pairs.models import load
from speculators_pairs.plan import PLANS


def records(target: Target, name: str) -> list[dict[str, Any]]:
    """Return one record per anchor whose top1-top2 gap exceeds MARGIN in every slot."""
    plan, kept = PLANS[name], []
    model = load(plan)
    for tokens in contexts():
        _, states = target(torch.tensor([tokens[:-1]]))
        proposal = propose(plan, model, states, tokens)
        if proposal.margin <= MARGIN:
            continue
        record = {
            "tokens": tokens,
            "anchor_position": len(tokens) - 1,
            "proposal": proposal.tokens,
            "margin": round(proposal.margin, 5),
        }
        if proposal.confidence is not None:
            record["confidence"] = [round(value, 6) for value in proposal.confidence]
        kept.append(record)
    print(f"golden {name}: {len(kept)} of {len(contexts())} anchors kept", flush=True)
    return kept


def write_golden(target: Target, name: str) -> None:
    """Write NAME/golden/proposals.json, laid out as golden/proposals.json of the pair."""
    maker = f"speculators {version('speculators')}, transformers {version('transformers')}"
    content = {
        "schema": 1,
        "produced_by": f"{maker}: the library's training forward at given anchors",
        "drafters": {name: records(target, name)},
    }
    folder = PAIR / name / "golden"
    folder.mkdir(exist_ok=True)
    (folder / "proposals.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    verifier = Target()
    for drafter in sys.argv[1:] or list(PLANS):
        write_golden(verifier, drafter)
