"""Pooled tau of one arm, and of two arms with prompts as the unit: for boots that are as good as one.

Prompts are paired: what both arms find hard leaves the difference. Its interval holds for other prompts like
these on the same engine, and says nothing about other boots. Source: the delta method for a ratio of sums
(`figures.py`, `Sums.residuals`), clusters by prompt as in `paired.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from truedraft.stats.arms import Arm
from truedraft.stats.components import ArmEstimate
from truedraft.stats.figures import figures
from truedraft.stats.paired import Estimate


def tau_of(arm: Arm, prompts: Sequence[str]) -> ArmEstimate:
    """Pooled tau of an arm over `prompts`, which every boot must have decoded."""
    return ArmEstimate.of(figures(arm, prompts, 0)["tau", None])


def over_prompts(a: Arm, b: Arm, prompts: Sequence[str]) -> Estimate:
    """Pooled tau of `b` - that of `a` over `prompts`, which every boot of both must have decoded.

    The mean over boots of each boot's figure, as in `compare`; its standard error is over prompts.
    """
    of_a, of_b = (figures(arm, prompts, 0)["tau", None] for arm in (a, b))
    pulls = of_b.residuals.mean(0) - of_a.residuals.mean(0)
    error = float(pulls.std(ddof=1) / math.sqrt(len(prompts))) if len(prompts) > 1 else math.nan
    return Estimate(float(of_b.per_boot.mean() - of_a.per_boot.mean()), error, len(prompts))
