"""What defines a drafter of a recipe."""

from __future__ import annotations

from dataclasses import dataclass

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class Shape:
    """Dimensions of one transformer stack."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float
    theta: float


@dataclass(frozen=True)
class DrafterSpec:
    """Everything that defines one drafter: its shape, conventions and training length.

    `width`: rows of a block; `first_slot`: the first one that proposes. Training takes `cycles` of
    `cycle` steps each, with peak learning rate `rate`.
    """

    name: str
    family: str
    shape: Shape
    taps: tuple[int, ...]
    layer_types: tuple[str, ...]
    sliding_window: int | None
    width: int
    first_slot: int
    cycle: int
    cycles: int
    rate: float
    seed: int
    markov_rank: int = 0
    mask_id: int = 1

    @property
    def proposals(self) -> int:
        """Tokens that one block proposes."""
        return self.width - self.first_slot
