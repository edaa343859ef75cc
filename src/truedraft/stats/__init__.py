"""Statistics of acceptance: intervals over prompts, paired comparison, corrections. numpy and scipy only."""

from truedraft.stats.paired import Estimate, estimate
from truedraft.stats.spending import spent

__all__ = ["Estimate", "estimate", "spent"]
