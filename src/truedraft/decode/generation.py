"""What decoding returns: finished generations, and chunks while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Generation:
    """One sequence's output. `tokens` ends with the stop token if `finish` is `stop`.

    `proposed[r]`, `accepted[r]` count as `Verdict` says. `finish`: `stop`, `length` (max_new_tokens) or
    `context` (the target's position limit). `drafts`, `confidence`: (anchor position, drafts) and the
    drafts' confidence of every round, if kept. `nodes[r]`: drafts that round r verified, if it was a tree;
    `parents`: those of every tree's nodes, if kept. `started`: Unix time in seconds.
    """

    prompt: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    proposed: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    finish: str = ""
    drafts: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    confidence: list[tuple[float, ...]] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    parents: list[tuple[int, ...]] = field(default_factory=list)
    started: float = 0.0


@dataclass(frozen=True)
class Chunk:
    """Tokens that one round added to sequence `index`."""

    index: int
    tokens: tuple[int, ...]
