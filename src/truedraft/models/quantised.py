"""Quantised weights are refused by name before anything is loaded: nothing here dequantises.

Cast as they are they would be noise, and transformers would only say which package to install for a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from truedraft.contract import InputError
from truedraft.formats import Resolution, is_quantised
from truedraft.formats.regime_files import quantisations_in_config


def refuse_quantised(resolution: Resolution) -> None:
    """Raise `InputError` naming the config key or the tensor that says that target or drafter is quantised.

    Configs and headers only. A quantisation that the drafter's config states is no reason by itself: its
    loader is ours, and what counts are the tensors that it needs.
    """
    for stated in quantisations_in_config(resolution.target):
        if not stated.cache:
            raise quantised_error(stated.where, stated.scheme)
    draft, target = resolution.draft, resolution.target
    # a matrix says more than its scales, whose names come first
    for checkpoint, names in ((draft, list(resolution.tensors)), (target, _scales_last(target.tensors))):
        for name in names:
            if is_quantised(checkpoint, name):
                raise quantised_error(
                    checkpoint.where_tensor(name), f"dtype {checkpoint.tensors[name].dtype}"
                )


def quantised_error(where: str, found: str) -> InputError:
    """The error about one config key or tensor."""
    return InputError(
        f"{where}: found {found}, expected unquantised weights (BF16, F16 or F32): `run` does not support "
        "quantised ones, `contract` and `check` read them"
    )


def _scales_last(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: "scale" in name.rpartition(".")[2])
