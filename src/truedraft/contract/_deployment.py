"""`Deployment`: how a pair is run. No checkpoint states any of this."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

COLDEST = 1e-5
"""Temperatures below this are greedy (DeepSpec `utils/sampling.py`)."""


@dataclass(frozen=True)
class Deployment:
    """Settings of a run that are not part of the contract.

    `speculative_tokens`: K, drafts to verify per round; `None` takes all that the contract proposes. A
    block keeps its trained width whatever K is. `confidence_threshold`: drop the drafts from the first one
    whose confidence is below it (0: off). `batch_size`: sequences decoded together.

    `temperature`, `top_k`, `top_p`: the target's sampling, temperature 0 is greedy. `proposal`: drafts are
    the drafter's argmax, or sampled with `draft_temperature`, `draft_top_k`, `draft_top_p`. `verification`:
    `greedy` accepts a draft iff it is the target's argmax; `standard`, `block` and `exact_match` keep the
    law of sampled output (`docs/acceptance.md`). `tree_budget`, `tree_depth`: verify a tree of at most so
    many nodes, and so many drafts in a row, instead of a chain; K is the depth then. `runner`,
    `prefix_cache`, `block_drop`, `kv_layout` describe the engine: truedraft's own has one runner, contiguous
    KV and no prefix cache.
    """

    speculative_tokens: int | None = None
    confidence_threshold: float = 0.0
    batch_size: int = 1
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    proposal: Literal["greedy", "sampled"] = "greedy"
    draft_temperature: float = 0.0
    draft_top_k: int = 0
    draft_top_p: float = 1.0
    verification: Literal["greedy", "standard", "block", "exact_match"] = "greedy"
    tree_budget: int | None = None
    tree_depth: int | None = None
    runner: str = "truedraft"
    prefix_cache: bool = False
    block_drop: bool = False
    kv_layout: Literal["contiguous", "paged"] = "contiguous"

    def to_json(self) -> dict[str, Any]:
        """The `deployment` object of `truedraft run --json`."""
        return asdict(self)
