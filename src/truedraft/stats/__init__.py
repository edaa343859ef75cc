"""Statistics of acceptance: intervals, comparison of arms, power, corrections. numpy and scipy only."""

from truedraft.stats.arms import Arm
from truedraft.stats.compare import compare
from truedraft.stats.paired import Estimate, estimate
from truedraft.stats.plan import Spread, spread_of
from truedraft.stats.rows import Comparison, Row
from truedraft.stats.spending import spent

__all__ = ["Arm", "Comparison", "Estimate", "Row", "Spread", "compare", "estimate", "spent", "spread_of"]
