"""The golden cases as the tests of drafters use them. Data only: each case.json says who produced it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import torch
from safetensors.torch import load_file

from conftest import GOLDENS
from truedraft import Pair, load_pair, resolve

TOLERANCE = 2e-4
"""Largest difference of logits, as every case.json states it."""


@cache
def pair(case: str) -> Pair:
    """A case's target and drafter, loaded from its directories."""
    return load_pair(resolve(GOLDENS / case / "target", GOLDENS / case / "draft"))


@cache
def golden(case: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A case's tensors and its expectations."""
    expect = json.loads((GOLDENS / case / "expect.json").read_text())
    return load_file(GOLDENS / case / "io.safetensors"), expect


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Hold two tensors against each other within `TOLERANCE`."""
    torch.testing.assert_close(found, wanted, atol=TOLERANCE, rtol=0)
