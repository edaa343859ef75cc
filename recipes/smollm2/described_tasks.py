"""Tasks in plain words from `reasoning-gym` (Apache-2.0), as questions and as requests for code."""

from __future__ import annotations

import json
import random
from pathlib import Path

from wheels import read_member

PACKAGE, VERSION = "reasoning_gym", "0.1.25"
MEMBER = "reasoning_gym/data/codeio-hq.jsonl.gz"
SHORTEST, LONGEST = 60, 700

REQUESTS = (
    "{task}",
    "Write a Python function for this task.\n\n{task}",
    "{task} Explain step by step how to find out.",
    "{task} Write a short Python program and explain it.",
)


def described_tasks(wheels: Path) -> list[str]:
    """All fitting descriptions, in the order of the package."""
    data = read_member(wheels, f"{PACKAGE}-{VERSION}-*.whl", MEMBER)
    entries = json.loads(data)  # one list, whatever the member's name says
    texts = (" ".join(entry["task_description"].split()) for entry in entries)
    return [text for text in texts if text.isascii() and SHORTEST <= len(text) <= LONGEST]


def task_request(tasks: list[str], chance: random.Random) -> str:
    """One request about one of the tasks."""
    return chance.choice(REQUESTS).format(task=chance.choice(tasks))
