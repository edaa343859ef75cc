"""Names, conventions, sizes, seeds and step counts of the four drafters."""

from __future__ import annotations

from dataclasses import dataclass

from settings import FULL, SLIDING, WORK

FEATURES = WORK / "speculators-features.safetensors"
FIRST_COUNTED = 24
ANCHORS_PER_WINDOW = 40
WARM = 0.7
GAMMA = 4.0


@dataclass(frozen=True)
class Plan:
    """One drafter: what the library is asked to build and how long it is trained.

    aux are the library's layer ids: n is the hidden state after n layers, 0 the embeddings.
    """

    name: str
    algorithm: str
    aux: tuple[int, ...]
    layer_types: tuple[str, ...]
    block_size: int
    proposals: int
    cycle: int
    cycles: int
    seed: int
    rate: float = 0.01
    windows: int = 4
    sample_from_anchor: bool = False
    sliding_window: int | None = None
    markov_rank: int = 0
    draft_vocab: int = 1024
    norm_before_residual: bool = False
    theta: float = 10_000.0
    eps: float = 1e-5


PLANS = {
    plan.name: plan
    for plan in (
        Plan("dspark-bonus", "dspark", (1, 4, 7), (FULL, FULL), 8, 7, 1500, 1, 21, markov_rank=48),
        Plan(
            "dspark-anchor", "dspark", (2, 5, 7), (FULL, FULL), 7, 7, 950, 2, 22,
            markov_rank=32, sample_from_anchor=True,
        ),
        Plan(
            "dflash-speculators", "dflash", (2, 4, 7), (SLIDING, FULL, SLIDING), 8, 7, 900, 1, 23,
            sliding_window=32,
        ),
        Plan(
            "eagle3", "eagle3", (2, 5, 8), (FULL,), 1, 5, 1300, 1, 24,
            windows=2, draft_vocab=640, norm_before_residual=True,
        ),
    )
}  # fmt: skip
AUX_IDS = sorted({aux for plan in PLANS.values() for aux in plan.aux})
