"""`Deployment`: how a pair is run. No checkpoint states any of this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Deployment:
    """Settings of a run that are not part of the contract.

    `speculative_tokens`: K, drafts to verify per round; `None` takes all that the contract proposes. The
    block keeps its trained width whatever K is. `verification`: `greedy` accepts a draft iff it is the
    target's argmax. `runner`, `prefix_cache`, `block_drop` and `kv_layout` describe an engine's deployment;
    truedraft's own engine has one runner, contiguous KV and no prefix cache.
    """

    speculative_tokens: int | None = None
    proposal: Literal["greedy"] = "greedy"
    verification: Literal["greedy"] = "greedy"
    runner: str = "truedraft"
    prefix_cache: bool = False
    block_drop: bool = False
    kv_layout: Literal["contiguous", "paged"] = "contiguous"
