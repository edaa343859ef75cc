"""How much a text repeats itself; repetitive text is drafted easily: read acceptance beside it."""

from __future__ import annotations

from collections.abc import Sequence


def repetition(ids: Sequence[int]) -> float:
    """Return the share of 4-grams that occurred before in ids."""
    grams = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
