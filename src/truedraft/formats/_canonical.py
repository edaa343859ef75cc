"""Tensors under canonical names: layouts that name, prefix or fuse them differently.

Only the keys of `Checkpoint.tensors` change. Each `TensorRef` keeps the name that its file has, so that
messages point at a tensor that the reader of the message can find.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType

from truedraft.contract import InputError
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._safetensors import TensorRef

Rule = tuple[str, str]
"""A pattern that a whole tensor name must match, and its replacement (as in `re.sub`)."""

MODEL_PREFIX: Rule = (r"model\.(.+)", r"\1")


def renamed(draft: Checkpoint, rules: Iterable[Rule]) -> Checkpoint:
    """`draft` with every rule applied to each name, in order.

    Raises `InputError` if two tensors of the files come out under one name.
    """
    tensors: dict[str, TensorRef] = {}
    for own, ref in draft.tensors.items():
        name = own
        for pattern, replacement in rules:
            if (match := re.fullmatch(pattern, name)) is not None:
                name = match.expand(replacement)
        if name in tensors:
            raise InputError(
                f"{draft.where_tensor(own)}: found a second tensor for {name}, beside {tensors[name].name}"
            )
        tensors[name] = ref
    return replace(draft, tensors=MappingProxyType(tensors))


def unfused(draft: Checkpoint) -> Checkpoint:
    """`draft` with `qkv_proj` and `gate_up_proj` (rows stacked, as in vLLM) as their separate parts.

    Query rows are as many as `o_proj` has columns; keys and values share the rest, as gate and up share
    theirs. Raises `InputError` if the rows cannot be split so.
    """
    tensors: dict[str, TensorRef] = {}
    for name, ref in draft.tensors.items():
        match = re.fullmatch(r"(.*\.)(qkv_proj|gate_up_proj)\.(weight|bias)", name)
        if match is None:
            tensors[name] = ref
            continue
        prefix, kind, suffix = match.groups()
        first = _query_rows(draft, f"{prefix}o_proj.weight") if kind == "qkv_proj" else 0
        parts = ("q", "k", "v") if kind == "qkv_proj" else ("gate", "up")
        half, odd = divmod((ref.shape[0] if ref.shape else 0) - first, 2)
        if odd or half < 1:
            raise InputError(
                f"{draft.where_tensor(name)}: found shape {list(ref.shape)}, expected "
                + (f"{first} query rows (columns of o_proj) and " if first else "")
                + f"two equal parts of the {'other ' if first else ''}rows"
            )
        for part, rows in zip(parts, _ranges((first, half, half) if first else (half, half)), strict=True):
            if f"{prefix}{part}_proj.{suffix}" in draft.tensors:
                raise InputError(
                    f"{draft.where_tensor(name)}: found beside {part}_proj, expected one of the two"
                )
            shape = (rows[1] - rows[0], *ref.shape[1:])
            tensors[f"{prefix}{part}_proj.{suffix}"] = replace(ref, shape=shape, rows=rows)
    return replace(draft, tensors=MappingProxyType(tensors))


def _query_rows(draft: Checkpoint, output: str) -> int:
    shape = draft.shape(output)
    if shape is None or len(shape) != 2 or shape[1] < 1:
        raise InputError(f"{draft.directory}: no tensor {output} of two axes, expected one beside qkv_proj")
    return shape[1]


def _ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
