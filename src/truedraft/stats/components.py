"""Where the spread of a figure comes from: boots, prompts, and what one prompt does in one boot.

A crossed two-way layout without replication, on residuals linearised per boot (`Sums.residuals`):
residual[boot, prompt] = prompt[prompt] + rest[boot, prompt]; the boot's own figure has the spread between
boots. Source of the two-way variance: Cameron, Gelbach and Miller, "Robust Inference with Multiway
Clustering" (2011): clusters by boot plus clusters by prompt minus cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from truedraft.stats.figures import Floats, Sums


@dataclass(frozen=True)
class Components:
    """Variances of an arm's mean figure by what is resampled; `boots` is `nan` for a single boot.

    `boots`: variance between boots / number of boots. `prompts`: of a mean over prompts drawn anew, the rest
    of each prompt included. `cells`: the rest alone (0 for a single boot, which cannot tell it from prompts).
    """

    boots: float
    prompts: float
    cells: float
    boot_count: int
    prompt_count: int

    @property
    def of_both(self) -> float:
        """Variance of the mean figure if boots and prompts were drawn anew; prompts alone for one boot."""
        if self.boot_count == 1:
            return self.prompts
        return max(self.boots + self.prompts - self.cells, self.boots, self.prompts)

    @property
    def df_of_both(self) -> float:
        """Satterthwaite's degrees of freedom of `of_both`."""
        excess = 0.0 if self.boot_count == 1 else max(self.boots - self.cells, 0.0)
        below = self.prompts**2 / max(self.prompt_count - 1, 1) + excess**2 / max(self.boot_count - 1, 1)
        total = self.prompts + excess
        return total**2 / below if below > 0 else math.inf


@dataclass(frozen=True)
class ArmEstimate:
    """A figure of one arm: the mean over boots, and its standard error and degrees of freedom."""

    value: float
    error: float
    df: float

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Student's t, for other boots and prompts (one boot: other prompts); `None` for a single prompt."""
        if math.isnan(self.error):
            return None
        reach = float(stats.t.ppf((1 + level) / 2, self.df)) * self.error
        return self.value - reach, self.value + reach

    @classmethod
    def of(cls, sums: Sums) -> ArmEstimate:
        """The arm's figure. The mean over boots of each boot's figure: the boot is the unit."""
        parts = components(sums.per_boot, sums.residuals)
        error = math.sqrt(parts.of_both) if parts.prompt_count > 1 else math.nan
        return cls(float(sums.per_boot.mean()), error, parts.df_of_both)


def components(per_boot: Floats, residuals: Floats) -> Components:
    """Components of figures `per_boot` [boots] with `residuals` [boots, prompts] whose rows have mean 0."""
    boots, prompts = residuals.shape
    by_prompt = residuals.mean(0)
    rest = residuals - by_prompt
    freedom = (boots - 1) * (prompts - 1)
    return Components(
        boots=float(per_boot.var(ddof=1)) / boots if boots > 1 else math.nan,
        prompts=float(by_prompt @ by_prompt) / max(prompts - 1, 1) / prompts,
        cells=float(np.square(rest).sum()) / freedom / (boots * prompts) if freedom else 0.0,
        boot_count=boots,
        prompt_count=prompts,
    )
