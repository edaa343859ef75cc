"""Looking more than once: how much of the error each look may spend."""

from __future__ import annotations


def spent(alpha: float, look: int) -> float:
    """Share of `alpha` for the `look`-th look, from 1: alpha / (look (look + 1)), which sums to alpha.

    By the union bound the chance of a false alarm at any look stays below alpha, whatever decides when to
    stop; the number of looks need not be known beforehand.
    """
    if look < 1:
        raise ValueError(f"looks count from 1, found {look}")
    return alpha / (look * (look + 1))
