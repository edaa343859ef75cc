"""Greedy verification of a chain: the longest prefix of the drafts that the target would have chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What one round adds to the output.

    `tokens`: what reaches the output, cut at a stop token (which is included) or at the limit. `proposed`,
    `accepted`: drafts of this round that count; where the output was cut, drafts behind the cut count as
    neither. `finish`: `stop`, `length`, or `None` to go on.
    """

    tokens: tuple[int, ...]
    proposed: int
    accepted: int
    finish: str | None


def verify_greedy(
    drafts: Sequence[int], choices: Sequence[int], stop: frozenset[int], remaining: int
) -> Verdict:
    """Accept drafts while they equal the target's choices.

    `drafts`: K tokens. `choices`: K + 1 tokens, the target's argmax after the anchor and after each draft.
    `remaining` >= 1: tokens that may still be output.
    """
    agree = 0
    while agree < len(drafts) and drafts[agree] == choices[agree]:
        agree += 1
    emitted = choices[: agree + 1]
    end = next((i + 1 for i, token in enumerate(emitted) if token in stop), len(emitted))
    kept = min(end, remaining)
    finish = "stop" if emitted[kept - 1] in stop else "length" if kept == remaining else None
    cut = kept <= agree
    return Verdict(
        tokens=tuple(emitted[:kept]),
        proposed=kept if cut else len(drafts),
        accepted=kept if cut else agree,
        finish=finish,
    )
