"""Everyday questions and tasks: explain, compare, list, rewrite, write."""

from __future__ import annotations

import random
import re

from general_texts import ABOUT, COMPARE, PAIRS, REWRITE, SENTENCES, TASKS, TOPICS, WORDS


def general_task(chance: random.Random) -> str:
    """One task, of a kind drawn first so that short lists are not drowned by long ones."""
    kind = chance.random()
    if kind < 0.45:
        return chance.choice(ABOUT).format(topic=chance.choice(TOPICS))
    if kind < 0.55:
        return chance.choice(COMPARE).format(pair=chance.choice(PAIRS))
    if kind < 0.70:
        return chance.choice(REWRITE).format(sentence=chance.choice(SENTENCES))
    return re.sub(r"{(\w+)}", lambda found: chance.choice(WORDS[found[1]].split("; ")), chance.choice(TASKS))
