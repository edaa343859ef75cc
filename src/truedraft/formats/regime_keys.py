"""What a drafter's config says of the target that it was made for; no engine needs these keys to run it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import INTEGER, Keys

_NESTED = ("transformer_layer_config", "text_config")
_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}


@dataclass(frozen=True)
class Claim:
    """A value and the key that states it."""

    value: Any
    where: str


def verifier_architectures(draft: Checkpoint) -> Claim | None:
    """Architectures of the verifier that a speculators config names; not the drafter's own."""
    found = _lookup(draft, "speculators_config/verifier/architectures")
    if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
        return None
    return Claim(tuple(found), draft.where("/speculators_config/verifier/architectures"))


def target_names(draft: Checkpoint) -> tuple[Claim, ...]:
    """Names or paths of the model that the drafter says it belongs to."""
    pointers = ("speculators_config/verifier/name_or_path", "base_model_name_or_path", "base_model")
    found = ((pointer, _lookup(draft, pointer)) for pointer in pointers)
    return tuple(Claim(v, draft.where(f"/{p}")) for p, v in found if isinstance(v, str) and v)


def target_layers(draft: Checkpoint) -> Claim | None:
    """Layers of the target that the drafter was trained on."""
    value = Keys(draft).get("num_target_layers", INTEGER)
    return None if value is None else Claim(value, draft.where("/num_target_layers"))


def architectures(checkpoint: Checkpoint) -> tuple[str, ...]:
    """A checkpoint's own architectures."""
    found = checkpoint.config.get("architectures")
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def own_name(checkpoint: Checkpoint) -> str:
    """The name under which a checkpoint was published, if its config still has it."""
    found = checkpoint.config.get("_name_or_path")
    return found if isinstance(found, str) else ""


def longest_position(draft: Checkpoint) -> Claim | None:
    """The drafter's last position, with YaRN and linear scaling counted in."""
    for prefix in ("", *(f"{name}/" for name in _NESTED)):
        value = _lookup(draft, f"{prefix}max_position_embeddings")
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            reach = max([value, *_scaled(draft, prefix)])
            return Claim(reach, draft.where(f"/{prefix}max_position_embeddings"))
    return None


def stored_dtype(checkpoint: Checkpoint) -> Claim | None:
    """`float16`, `bfloat16` or `float32`: of most tensors, or as the config says where there are none."""
    counts = Counter(_DTYPES[ref.dtype] for ref in checkpoint.tensors.values() if ref.dtype in _DTYPES)
    if counts:
        return Claim(counts.most_common(1)[0][0], f"{checkpoint.role}/*.safetensors")
    for prefix in ("", *(f"{name}/" for name in _NESTED)):
        for key in ("dtype", "torch_dtype"):
            value = _lookup(checkpoint, prefix + key)
            if isinstance(value, str):
                return Claim(value.removeprefix("torch."), checkpoint.where(f"/{prefix}{key}"))
    return None


def same_family(first: str, second: str) -> bool:
    """Whether two architecture names mean one text model, alone or inside a multimodal one."""
    return _family(first) == _family(second)


def _family(name: str) -> str:
    return (
        re.sub(r"(For[A-Z]\w*|LMHeadModel|Model)$", "", name).removesuffix("Text").removesuffix("VL").lower()
    )


def _scaled(draft: Checkpoint, prefix: str) -> Iterator[int]:
    for key in ("rope_scaling", "rope_parameters"):
        record = _lookup(draft, prefix + key)
        if isinstance(record, dict):
            factor, original = record.get("factor"), record.get("original_max_position_embeddings")
            numbers = all(isinstance(n, int | float) and 0 < n < 2**40 for n in (factor, original))
            if numbers and factor is not None and original is not None:
                yield int(factor * original)


def _lookup(checkpoint: Checkpoint, pointer: str) -> Any:
    node: Any = checkpoint.config
    for name in pointer.split("/"):
        node = node.get(name) if isinstance(node, dict) else None
    return node
