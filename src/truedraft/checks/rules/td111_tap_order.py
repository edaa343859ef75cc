"""Taps are listed in an order that engines do not keep.

What it finds
    Layer ids that are not strictly ascending.
Why it matters
    `fc` was trained on the concatenation in the listed order; vLLM and SGLang capture in the order of
    layers, so the features arrive permuted. Reference code keeps the list's order.
In acceptance
    Like wrong taps: a large loss.
Example
    "target_layer_ids": [33, 17, 1].
Fix
    List the layers in ascending order and permute the columns of fc.weight accordingly.
References
    vLLM interfaces.py `EagleModelMixin`, SGLang qwen3.py
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.checks._finding import Finding
from truedraft.checks._subject import Subject
from truedraft.checks.rules._where import place
from truedraft.checks.rules._words import layers

CODE = "TD111"
NAME = "tap-order"


def check(subject: Subject) -> Iterator[Finding]:
    """Taps that do not ascend."""
    contract = subject.contract
    taps = () if contract is None else contract.tuple_of("taps.layers")
    ids = [int(str(tap)) for tap in taps]
    if contract is not None and ids != sorted(ids):
        yield Finding(
            code=CODE,
            severity="warning",
            confidence="certain",
            message=f"taps are listed as {layers(taps)}, and vLLM and SGLang capture in the order of layers",
            where=place(contract.axes["taps.layers"]),
            axis="taps.layers",
            found=taps,
            expected=tuple(sorted(ids)),
            fix="list them in ascending order and permute the columns of fc.weight",
        )
