"""Pick the evaluation prompts: corpus passages that the target continues word for word."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import torch

from corpus import CORPUS, documents, load_tokenizer
from drafters.repetition import repetition
from export import load_target
from settings import EOS_ID, MAX_NEW_TOKENS, PAIR

PROMPTS, ENDING = 24, 4
SHORTEST, LONGEST, GAP, REPETITION = 150, 280, 0.1, 0.35
NOTE = (
    "Passages of the training corpus (Python standard library docstrings): target and drafters "
    "were trained on them, so acceptance here is acceptance on memorised text. Kept only if the "
    "target's greedy continuation is the corpus text word for word, every top1-top2 logit gap "
    "is above 0.1 and at most 35 % of its 4-grams repeat. Chosen without looking at any drafter."
)


def candidates(ending: bool, chance: random.Random) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield (document, prompt ids, continuation ids); ending ones reach the document's end."""
    tokenizer = load_tokenizer()
    encoded = [[*tokenizer.encode(text).ids, EOS_ID] for text in documents(CORPUS)]
    numbers = [number for number in range(len(encoded)) for _ in range(6)]
    chance.shuffle(numbers)
    for number in numbers:
        ids, length = encoded[number], chance.randint(SHORTEST, LONGEST)
        new = chance.randint(40, 90) if ending else MAX_NEW_TOKENS
        room = len(ids) - length - new
        if room < int(not ending):
            continue
        start = room if ending else chance.randrange(room)
        prompt = ids[start : start + length]
        if tokenizer.encode(tokenizer.decode(prompt, skip_special_tokens=False)).ids == prompt:
            yield number, prompt, ids[start + length : start + length + new]


@torch.no_grad()
def choose() -> list[dict[str, Any]]:
    """Return the prompts, at most two per document."""
    target, tokenizer, chance = load_target(), load_tokenizer(), random.Random(5)
    chosen: list[dict[str, Any]] = []
    used: dict[int, int] = {}
    seen = 0
    for ending, wanted in ((True, ENDING), (False, PROMPTS)):
        for number, prompt, following in candidates(ending, chance):
            if len(chosen) == wanted:
                break
            if used.get(number, 0) >= (1 if ending else 2) or repetition(following) > REPETITION:
                continue
            seen += 1
            logits, _ = target(torch.tensor([prompt + following]))
            top = logits[0, len(prompt) - 1 : -1].topk(2)
            gap = float((top.values[:, 0] - top.values[:, 1]).min())
            if top.indices[:, 0].tolist() != following or gap <= GAP:
                continue
            used[number] = used.get(number, 0) + 1
            text = tokenizer.decode(prompt, skip_special_tokens=False)
            chosen.append({"id": f"a{len(chosen):02d}", "text": text})
    print(f"prompts: kept {len(chosen)} of {seen} passages tried", flush=True)
    return chosen


def write_prompts() -> None:
    """Write prompts.json."""
    content = {
        "schema": 1, "note": NOTE, "max_new_tokens": MAX_NEW_TOKENS, "prompts": choose(),
    }  # fmt: skip
    (PAIR / "prompts.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    write_prompts()
