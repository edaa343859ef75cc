"""Other explanations: one axis moved instead of another, to much the same effect.

Slots read one late and positions one early, for instance, can give a drafter the same rows. What the data
cannot tell apart is reported as such; where a choice must be made, the first axis in `AXES` is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from truedraft.contract import AXES, Value
from truedraft.probe.evidence import Comparison

CLOSE = 0.5
"""Share of the best step's gain from which another step was worth remembering."""


@dataclass
class Rivals:
    """Steps that were nearly as good as those taken. `shown`: compared at the end, by the axis that moved."""

    steps: dict[str, tuple[tuple[str, Value], ...]] = field(default_factory=dict)
    shown: dict[str, list[Comparison]] = field(default_factory=dict)

    def remember(self, taken: Comparison, found: Sequence[Comparison]) -> None:
        """`taken` was the best of the steps `found`."""
        near = [
            (c.axis, c.value)
            for c in found
            if c.axis != taken.axis and c.log_q.mean >= CLOSE * taken.log_q.mean
        ]
        self.steps[taken.axis] = tuple(near)

    def swapped(self, old: str, value: Value, new: str) -> None:
        """`new` was moved instead of `old`, which had been moved to `value`."""
        rest = tuple(step for step in self.steps.pop(old, ()) if step[0] != new)
        self.steps[new] = ((old, value), *rest)


def comes_first(one: str, other: str) -> bool:
    """Whether an axis stands before another in `AXES`."""
    order = list(AXES)
    return order.index(one) < order.index(other)
