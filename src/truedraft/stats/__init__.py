"""Statistics of acceptance: intervals, comparison of arms, power, corrections. numpy and scipy only."""

from truedraft.stats.arms import Arm
from truedraft.stats.compare import compare
from truedraft.stats.components import ArmEstimate
from truedraft.stats.paired import Estimate, estimate
from truedraft.stats.plan import Spread, spread_of
from truedraft.stats.rows import Comparison, Row
from truedraft.stats.spending import spent
from truedraft.stats.tau import over_prompts, tau_of

__all__ = [
    "Arm",
    "ArmEstimate",
    "Comparison",
    "Estimate",
    "Row",
    "Spread",
    "compare",
    "estimate",
    "over_prompts",
    "spent",
    "spread_of",
    "tau_of",
]
