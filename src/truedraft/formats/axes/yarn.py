"""The YaRN factor that no config states."""

from __future__ import annotations

import math

from truedraft.contract import Record, Value


def yarn_attention_factor(scaling: Value) -> float:
    """Factor on cosine and sine where no config states one; 1.0 without YaRN.

    transformers `_compute_yarn_parameters`: m(factor, mscale) / m(factor, mscale_all_dim) if both are given,
    else m(factor, 1), with m(s, c) = 0.1 * c * ln(s) + 1 for s > 1, else 1.
    """
    if not isinstance(scaling, Record) or scaling["kind"] != "yarn":
        return 1.0
    if scaling.get("attention_factor"):
        return float(scaling["attention_factor"])

    def m(weight: float) -> float:
        stretch = float(scaling["factor"])
        return 1.0 if stretch <= 1 else 0.1 * weight * math.log(stretch) + 1.0

    numerator, denominator = scaling.get("mscale"), scaling.get("mscale_all_dim")
    if not (numerator and denominator):
        return m(1.0)
    return m(numerator) / m(denominator) if m(denominator) else math.inf
