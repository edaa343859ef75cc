"""What every tensor of a trace must be, by its name: kind and rank, whatever the pair."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from truedraft.contract import InputError

_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_KINDS = tuple(
    (re.compile(rf"rounds\.\d+\.(?:{names})"), rank, kind)
    for names, rank, kind in (
        (r"requests|starts|rejected|tokens|(context\.)?positions", 1, "integers"),
        (r"calls\.\d+\.(ids|positions|sampled)", 1, "integers"),
        (r"drafts|heads\.\d+\.ids", 2, "integers"),
        (r"taps|features|heads\.\d+\.(hidden|values)", 2, "real numbers"),
        (r"calls\.\d+\.(features|embedded|hidden|fed|layer\.\d+)", 2, "real numbers"),
        (r"context\.(keys|values)\.\d+", 3, "real numbers"),
        (r"calls\.\d+\.(query|key|value|attention)\.\d+", 3, "real numbers"),
        (r"context\.written\.\d+", 1, "truth values"),
    )
)


def check_kinds(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise `InputError` for the first tensor that is not what its name says; other names are left alone."""
    for key, tensor in tensors.items():
        for pattern, rank, kind in _KINDS:
            if pattern.fullmatch(key):
                if tensor.ndim != rank or not _is(tensor.dtype, kind):
                    shown = f"{list(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
                    raise InputError(f"{path}#{key}: found {shown}, expected {kind} in {rank} dimensions")
                break


def _is(dtype: torch.dtype, kind: str) -> bool:
    if kind == "integers":
        return dtype in _INTEGERS
    return dtype.is_floating_point if kind == "real numbers" else dtype == torch.bool
