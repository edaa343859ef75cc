"""Write golden proposals on unseen text, made by this recipe's own forward."""

from __future__ import annotations

import json
from typing import Any

import torch

from corpus import UNSEEN, documents, load_tokenizer
from drafters.drafting import confidence_logits, propose
from drafters.stack import Drafter, Target
from export import load_drafter, load_target
from settings import DRAFTERS, PAIR

DOCUMENTS, PER_DOCUMENT = 8, 6
SHORTEST, LONGEST, MARGIN = 20, 380, 0.01


def contexts() -> list[list[int]]:
    """Return token lists [context ..., anchor]; context lengths spread over 20 to 380."""
    tokenizer, found = load_tokenizer(), []
    for number, text in enumerate(documents(UNSEEN)[:DOCUMENTS]):
        ids = tokenizer.encode(text).ids
        for part in range(PER_DOCUMENT):
            place = (part * DOCUMENTS + number) / (DOCUMENTS * PER_DOCUMENT - 1)
            found.append(ids[: SHORTEST + round(place * (LONGEST - SHORTEST)) + 1])
    return found


@torch.no_grad()
def golden(target: Target, drafter: Drafter) -> list[dict[str, Any]]:
    """Return one record per anchor whose top1-top2 gap exceeds MARGIN in every slot."""
    table, records = target.embed_tokens.weight, []
    for tokens in contexts():
        anchor = len(tokens) - 1
        _, outputs = target(torch.tensor([tokens[:-1]]))
        features = torch.cat([outputs[tap] for tap in drafter.spec.taps], -1)
        last = torch.tensor([[tokens[-1]]])
        places = torch.tensor([[anchor]])
        proposal, margin, hidden = propose(drafter, table, features, places, last)
        if float(margin) <= MARGIN:
            continue
        record = {
            "tokens": tokens,
            "anchor_position": anchor,
            "proposal": proposal.flatten().tolist(),
            "margin": round(float(margin), 5),
        }
        if drafter.spec.family == "dspark":
            previous = torch.cat((last[..., None], proposal[..., :-1]), -1)
            sure = confidence_logits(drafter, hidden, previous).sigmoid()
            record["confidence"] = [round(value, 6) for value in sure.flatten().tolist()]
        records.append(record)
    return records


def write_golden() -> None:
    """Write golden/proposals.json for all drafters."""
    target = load_target()
    content = {
        "schema": 1,
        "produced_by": "recipes/tiny reference forward",
        "drafters": {name: golden(target, load_drafter(name)) for name in DRAFTERS},
    }
    folder = PAIR / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "proposals.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
    kept = {name: len(records) for name, records in content["drafters"].items()}
    print(f"golden: anchors kept {kept} of {DOCUMENTS * PER_DOCUMENT}", flush=True)


if __name__ == "__main__":
    write_golden()
