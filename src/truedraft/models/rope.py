"""Rotary position embedding of draft layers, from the axes `rope.*`.

Formulas: plain RoPE (arXiv 2104.09864), linear position interpolation (arXiv 2306.15595), YaRN
(arXiv 2309.00071, "NTK-by-parts" ramp), and Llama 3.1's frequency-dependent scaling as published with it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from truedraft.contract import Contract, InputError, Record, format_value


def inverse_frequencies(theta: float, dims: int, scaling: Record | None) -> Tensor:
    """Angular frequency of each rotated pair, fp32 [dims / 2], in radians per position."""
    plain = theta ** -(torch.arange(0, dims, 2, dtype=torch.float32) / dims)
    if scaling is None:
        return plain
    factor = float(scaling["factor"])
    if scaling["kind"] == "linear":
        return plain / factor
    original = float(scaling["original_max_position_embeddings"])
    if scaling["kind"] == "yarn":
        return _yarn(plain, theta, dims, factor, original, scaling)
    if scaling["kind"] == "llama3":
        low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
        turns = original * plain / (2 * math.pi)
        keep = ((turns - low) / (high - low)).clamp(0, 1)
        return plain * keep + plain / factor * (1 - keep)
    raise ValueError(f"unknown rope scaling {scaling['kind']}")


def _yarn(plain: Tensor, theta: float, dims: int, factor: float, original: float, scaling: Record) -> Tensor:
    """Fast pairs keep their frequency, slow ones are interpolated, a linear ramp lies between."""

    def pair_with_turns(turns: float) -> float:
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = pair_with_turns(float(scaling.get("beta_fast") or 32))
    high = pair_with_turns(float(scaling.get("beta_slow") or 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    ramp = (torch.arange(dims // 2, dtype=torch.float32) - low) / max(high - low, 0.001)
    interpolated = ramp.clamp(0, 1)
    return plain / factor * interpolated + plain * (1 - interpolated)


def _finite(theta: float, dims: int, scaling: Record | None) -> Tensor:
    try:
        frequencies = inverse_frequencies(theta, dims, scaling)
    except (ValueError, ArithmeticError) as error:
        reason = str(error)
    else:
        if torch.isfinite(frequencies).all():
            return frequencies
        reason = "not finite"
    shown = format_value(scaling)
    raise InputError(
        f"rope.theta={theta:g} with rope.scaling={shown}: found no rotary frequencies ({reason})"
    )


class RotaryTable:
    """Cosines and sines of all draft layers, [layers, positions, rotated dims], grown on demand.

    `rotate` applies them to the rotated part of each head: `half` pairs dimension i with i + dims/2,
    `interleaved` pairs 2i with 2i + 1. All layers rotate the same number of dimensions.
    """

    def __init__(self, contract: Contract, device: torch.device, positions: int = 1024) -> None:
        self.dims: int = contract["rope.rotary_dims"][0]
        self.last: bool = contract["rope.placement"][0] == "last"
        self.interleaved: bool = contract["rope.layout"][0] == "interleaved"
        layers = zip(contract["rope.theta"], contract["rope.scaling"], strict=True)
        frequencies = [_finite(theta, self.dims, scaling) for theta, scaling in layers]
        self._frequencies = torch.stack(frequencies).to(device)
        self._factors = torch.tensor(contract["rope.attention_factor"], device=device)[:, None, None]
        self._build(positions)

    def _build(self, positions: int) -> None:
        angles = (
            torch.arange(positions, device=self._frequencies.device)[:, None] * self._frequencies[:, None]
        )
        spread = angles.repeat_interleave(2, -1) if self.interleaved else torch.cat([angles, angles], -1)
        self.cos, self.sin = spread.cos() * self._factors, spread.sin() * self._factors

    def at(self, positions: Tensor, largest: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine [layers, rows, rotated dims] at int64 positions of at most `largest` in size.

        A negative position (an override can shift a block before the first token) turns the other way.
        """
        if largest >= self.cos.shape[1]:
            self._build(2 * (largest + 1))
        size = positions.abs()
        return self.cos[:, size], self.sin[:, size] * positions.sign()[:, None]

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate `x` [..., head dim]; cos and sin broadcast against [..., rotated dims]."""
        if self.dims == x.shape[-1]:
            return x * cos + self._turned(x) * sin
        split = x.shape[-1] - self.dims if self.last else self.dims
        first, second = x[..., :split], x[..., split:]
        if self.last:
            return torch.cat([first, second * cos + self._turned(second) * sin], -1)
        return torch.cat([first * cos + self._turned(first) * sin, second], -1)

    def _turned(self, x: Tensor) -> Tensor:
        if self.interleaved:
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack([-odd, even], -1).flatten(-2)
        low, high = x.chunk(2, -1)
        return torch.cat([-high, low], -1)
