"""How a target's weights were quantised or rotated, from the files that quantisers write beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._inside import find_file
from truedraft.formats._json import load_object

DESCRIPTION_BYTES = 16 * 2**20
"""Largest `quant_model_description.json` that is read: it has a line per tensor."""

# Schemes in which a family's producer publishes it: the drafter saw the features of these weights.
_NATIVE = {
    "deepseek_": ("fp8",),
    "gpt_oss": ("mxfp4",),
    "kimi_": ("fp8", "compressed-tensors"),
    "mimo_": ("fp8",),
    "minimax": ("fp8",),
}

_ROTATIONS = ("quarot", "spinquant", "hadamard", "rotation", "rot_used", "rotated")


@dataclass(frozen=True)
class Quantisation:
    """One statement about quantised weights, or (`cache`) about a quantised KV cache.

    `scheme`: the method and its format in words; `native`: the form in which the producer publishes this
    family.
    """

    scheme: str
    where: str
    native: bool = False
    cache: bool = False


@dataclass(frozen=True)
class Rotation:
    """A sign of rotated weights. `residual`: the residual stream itself is known to be in another basis."""

    what: str
    where: str
    residual: bool


def quantisations(checkpoint: Checkpoint) -> tuple[Quantisation, ...]:
    """What config and side files say about quantisation. Raises `InputError` for files that are no JSON."""
    found = list(quantisations_in_config(checkpoint))
    stated = _side_file(checkpoint, "hf_quant_config.json").get("quantization")
    if isinstance(stated, dict):
        where = checkpoint.where("/quantization", "hf_quant_config.json")
        if isinstance(algorithm := stated.get("quant_algo"), str):
            found.append(Quantisation(algorithm, where))
        if isinstance(algorithm := stated.get("kv_cache_quant_algo"), str):
            found.append(Quantisation(f"KV cache {algorithm}", where, cache=True))
    kinds = {kind for kind in _side_file(checkpoint, _DESCRIPTION).values() if isinstance(kind, str)}
    schemes = sorted(kind for kind in kinds if kind[:1] == "W" and kind[1:2].isdigit())
    if schemes:
        found.append(Quantisation(", ".join(schemes), f"{checkpoint.role}/{_DESCRIPTION}"))
    return tuple(found)


def quantisations_in_config(checkpoint: Checkpoint) -> Iterator[Quantisation]:
    """What `config.json` alone says: the key that makes a loader look for a quantiser."""
    for pointer, stated in _stated(checkpoint):
        method = next((str(stated[k]) for k in ("quant_method", "quant_algo") if stated.get(k)), "")
        details = (str(stated[k]) for k in ("quant_algo", "format", "fmt", "bits") if stated.get(k))
        scheme = " ".join(dict.fromkeys((method or "unnamed", *details)))
        native = any(
            kind.startswith(family) and method.lower() in methods
            for family, methods in _NATIVE.items()
            for kind in _model_types(checkpoint)
        )
        yield Quantisation(scheme, checkpoint.where(f"/{pointer}"), native)
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            if stated.get(key):
                where = checkpoint.where(f"/{pointer}/{key}")
                yield Quantisation("KV cache", where, cache=True)


def rotations(checkpoint: Checkpoint) -> tuple[Rotation, ...]:
    """Signs that the weights were multiplied by a rotation (QuaRot, SpinQuant, Hadamard), surest first.

    ModelSlim writes `is_rot_used` and `optional/quarot.safetensors` (vllm-ascend reads both);
    compressed-tensors names the rotation of the residual stream R1 in `transform_config`. R2 to R4 act inside
    attention and MLP and leave the residual stream as it was.
    """
    found = []
    description = _side_file(checkpoint, _DESCRIPTION)
    if description.get("is_rot_used") is True:
        found.append(Rotation("is_rot_used", checkpoint.where("/is_rot_used", _DESCRIPTION), True))
    optional = description.get("optional")
    if isinstance(optional, dict) and optional.get("quarot"):
        found.append(Rotation("QuaRot", checkpoint.where("/optional/quarot", _DESCRIPTION), True))
    file = Path("optional") / "quarot.safetensors"
    if find_file(checkpoint.directory, file.as_posix()) is not None:
        found.append(Rotation("QuaRot's matrix", f"{checkpoint.role}/{file.as_posix()}", True))
    for pointer, stated in _stated(checkpoint):
        groups = _object(_object(stated.get("transform_config")).get("config_groups"))
        if "R1" in groups:
            where = checkpoint.where(f"/{pointer}/transform_config/config_groups/R1")
            found.append(Rotation("rotation R1", where, True))
        for key, value in stated.items():
            if value and any(word in key.lower() for word in _ROTATIONS):
                found.append(Rotation(key, checkpoint.where(f"/{pointer}/{key}"), False))
    return tuple(sorted(found, key=lambda sign: not sign.residual))


_DESCRIPTION = "quant_model_description.json"


def _model_types(checkpoint: Checkpoint) -> tuple[str, ...]:
    nested = _object(checkpoint.config.get("text_config"))
    found = (checkpoint.config.get("model_type"), nested.get("model_type"))
    return tuple(kind for kind in found if isinstance(kind, str))


def _stated(checkpoint: Checkpoint) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for prefix, config in (("", checkpoint.config), ("text_config/", checkpoint.config.get("text_config"))):
        for key in ("quantization_config", "compression_config"):
            stated = _object(config).get(key)
            if isinstance(stated, dict) and stated:
                yield f"{prefix}{key}", stated


def _side_file(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    path = checkpoint.directory / name
    return load_object(path, limit=DESCRIPTION_BYTES) if find_file(path.parent, path.name) else {}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
