"""`Deployment`: how a pair is run. No checkpoint states any of this."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Deployment:
    """Settings of a run that are not part of the contract.

    `speculative_tokens`: K, drafts to verify per round; `None` takes all that the contract proposes. The
    block keeps its trained width whatever K is. `confidence_threshold`: drop the drafts from the first one
    whose confidence is below it (0: off). `batch_size`: sequences decoded together. `verification`: `greedy`
    accepts a draft iff it is the target's argmax. `runner`, `prefix_cache`, `block_drop`, `kv_layout`
    describe the engine: truedraft's own has one runner, contiguous KV and no prefix cache.
    """

    speculative_tokens: int | None = None
    confidence_threshold: float = 0.0
    batch_size: int = 1
    proposal: Literal["greedy"] = "greedy"
    verification: Literal["greedy"] = "greedy"
    runner: str = "truedraft"
    prefix_cache: bool = False
    block_drop: bool = False
    kv_layout: Literal["contiguous", "paged"] = "contiguous"

    def to_json(self) -> dict[str, Any]:
        """The `deployment` object of `truedraft run --json`."""
        return asdict(self)
