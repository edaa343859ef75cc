"""Small pairs with tensors whose values are known: healthy ones, and what a case changes of them."""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from case import Change
from checkpoints import TARGET, ZLAB, changed, write

from truedraft.checks import Subject
from truedraft.formats import expected, inspect
from truedraft.formats._safetensors import DTYPE_BITS

EAGLE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "draft_vocab_size": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
}
"""A chain with an embedding and a head of its own, over 128 of 256 ids."""

OFFSETS = [0] * 64 + [100] * 64
"""A healthy d2t for it: target ids 0 to 63 and 164 to 227."""


@dataclass(frozen=True)
class Stored:
    """A tensor as a file holds it."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


Tensors = dict[str, Stored]
Edit = Callable[[Tensors], object]


def numbers(values: list[float], *shape: int, dtype: str = "F32") -> Stored:
    """A float tensor; BF16 takes the upper halves."""
    data = array("d" if dtype == "F64" else "f", values).tobytes()
    if dtype == "BF16":
        data = b"".join(data[i + 2 : i + 4] for i in range(0, len(data), 4))
    return Stored(dtype, shape or (len(values),), data)


def filled(*shape: int, seed: int = 0, dtype: str = "F32") -> Stored:
    """Random numbers between -1 and 1, the same for the same seed."""
    generator = random.Random(seed)
    return numbers([generator.uniform(-1, 1) for _ in range(prod(shape))], *shape, dtype=dtype)


def constant(value: float, *shape: int) -> Stored:
    """One number everywhere."""
    return numbers([value] * prod(shape), *shape)


def whole(values: list[int], dtype: str = "I64") -> Stored:
    """A vector of integers, or a mask."""
    code = {"I64": "q", "I32": "i", "BOOL": "B", "U8": "B"}[dtype]
    return Stored(dtype, (len(values),), array(code, values).tobytes())


def raw(dtype: str, *shape: int) -> Stored:
    """Bytes of another dtype, whatever they mean."""
    return Stored(dtype, shape, bytes(i % 251 for i in range(prod(shape) * DTYPE_BITS[dtype] // 8)))


def write_tensors(path: Path, tensors: Mapping[str, Stored]) -> None:
    """A safetensors file of these tensors."""
    header, end = {}, 0
    for name, stored in tensors.items():
        begin, end = end, end + len(stored.data)
        header[name] = {
            "dtype": stored.dtype,
            "shape": list(stored.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    data = b"".join(stored.data for stored in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def pair(
    directory: Path,
    edit: Edit | None = None,
    *,
    base: Change = ZLAB,
    change: Change | None = None,
    target: Change | None = None,
    target_tensors: Tensors | None = None,
    overrides: tuple[str, ...] = (),
    **more: Any,
) -> Subject:
    """A healthy pair whose drafter's tensors `edit` changes; the config changes, after that, with `change`.

    `target`: changes of the target's config.
    """
    target_at = write(directory / "target", changed(TARGET, target or {}))
    if target_tensors is not None:
        write_tensors(target_at / "model.safetensors", target_tensors)
    tensors = healthy(directory, base)
    if edit is not None:
        edit(tensors)
    draft_at = write(directory / "draft", changed(base, change or {}))
    write_tensors(draft_at / "model.safetensors", tensors)
    return Subject(inspect(target_at, draft_at, overrides), **more)


def healthy(directory: Path, base: Change) -> Tensors:
    """Values for all that a drafter with this config needs."""
    chain = base is EAGLE
    target = write(directory / "plain", TARGET)
    contract = inspect(
        target, write(directory / "bare", dict(base)), ["embedding.source=own"] if chain else []
    ).contract
    assert contract is not None
    out = {}
    for seed, (name, dims) in enumerate(expected(contract).items()):
        shape = tuple(dim for dim in dims if dim is not None)
        assert len(shape) == len(dims), name
        out[name] = whole(OFFSETS) if name == "d2t" else filled(*shape, seed=seed)
    return out


def drop(*names: str) -> Edit:
    """An edit that leaves tensors out; a name that ends with a dot means all that begin so."""

    def edit(tensors: Tensors) -> None:
        for name in list(tensors):
            if any(name == given or (given[-1] == "." and name.startswith(given)) for given in names):
                del tensors[name]

    return edit


def put(**tensors: Stored) -> Edit:
    """An edit that adds or replaces tensors; `__` stands for a dot."""
    return lambda found: found.update({name.replace("__", "."): stored for name, stored in tensors.items()})
