"""Does a live rotary table turn as a contract says? Plain arithmetic, without torch.

Formulas as in `models/rope.py`: plain RoPE (arXiv 2104.09864), linear interpolation (arXiv 2306.15595),
YaRN (arXiv 2309.00071), Llama 3.1's frequency-dependent scaling.
"""

from __future__ import annotations

import math

from truedraft.contract import Record, Value
from truedraft.engines.vllm.facts import LiveRope

EXACT, COARSE = 2e-3, 2e-2
"""Largest deviation of a cosine or sine: of an fp32 table (angles up to 1000 radians), and of one in half
precision."""


def frequencies(theta: float, dims: int, scaling: Value) -> list[float]:
    """Radians per position of each rotated pair."""
    plain = [theta ** (-2 * pair / dims) for pair in range(dims // 2)]
    if not isinstance(scaling, Record):
        return plain
    factor, kind = float(scaling["factor"]), scaling["kind"]
    if kind == "linear":
        return [frequency / factor for frequency in plain]
    length = float(scaling["original_max_position_embeddings"])
    if kind == "llama3":
        low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
        turns = [length * frequency / (2 * math.pi) for frequency in plain]
        kept = [_unit((count - low) / (high - low)) for count in turns]
    else:
        low, high = _ramp(theta, dims, length, scaling)
        kept = [1 - _unit((pair - low) / max(high - low, 0.001)) for pair in range(dims // 2)]
    return [f * keep + f / factor * (1 - keep) for f, keep in zip(plain, kept, strict=True)]


def _ramp(theta: float, dims: int, length: float, scaling: Record) -> tuple[float, float]:
    """First and last pair of YaRN's ramp."""

    def pair_with(turns: float) -> float:
        return dims * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = (
        pair_with(float(scaling.get("beta_fast") or 32)),
        pair_with(float(scaling.get("beta_slow") or 1)),
    )
    if scaling.get("truncate", True) in (True, None):
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, dims - 1)


def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def turns_as(rope: LiveRope, theta: float, dims: int, scaling: Value, factor: float) -> bool:
    """Whether the table has the cosines and sines of these settings, times `factor`."""
    if rope.dims != dims or not rope.rows:
        return False
    try:
        wanted = frequencies(theta, dims, scaling)
    except (ArithmeticError, ValueError):
        return False
    allowed = (EXACT if rope.exact else COARSE) * max(factor, 1.0)
    for position, (cosines, sines) in rope.rows.items():
        for frequency, cosine, sine in zip(wanted, cosines, sines, strict=True):
            angle = position * frequency
            deviation = max(abs(cosine - factor * math.cos(angle)), abs(sine - factor * math.sin(angle)))
            if deviation > allowed:
                return False
    return True


def measured_base(rope: LiveRope) -> float | None:
    """The base that the second pair's angle at position 1 gives, with four digits; exact tables only."""
    cosines, sines = rope.rows.get(1, ((), ()))
    if not rope.exact or len(cosines) < 2:
        return None
    angle = math.atan2(sines[1], cosines[1])
    return float(f"{angle ** (-rope.dims / 2):.4g}") if 0 < angle < 1 else None


def measured_factor(rope: LiveRope) -> float:
    """The factor on cosines and sines."""
    position = min(rope.rows)
    cosines, sines = rope.rows[position]
    return math.hypot(cosines[0], sines[0])
