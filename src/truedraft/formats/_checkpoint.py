"""A checkpoint directory as readers see it: its config and the headers of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from truedraft.contract import InputError
from truedraft.formats._json import load_object
from truedraft.formats._safetensors import TensorRef, find_tensors

Role = Literal["target", "draft"]


@dataclass(frozen=True)
class Checkpoint:
    """One directory. `config`: its `config.json`; `tensors`: headers only, empty without weights.

    The keys of `tensors` are the names in the files until a reader's `canonical` renames them.
    """

    role: Role
    directory: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorRef]

    def where(self, pointer: str, file: str = "config.json") -> str:
        """`draft/config.json#/a/b` for the key at `/a/b`."""
        return f"{self.role}/{file}#{pointer}"

    def where_tensor(self, name: str) -> str:
        """`draft/model.safetensors#name`, with the name and the rows that the file itself has."""
        return f"{self.role}/{self.tensors[name]}"

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor, or `None` if the checkpoint lacks it."""
        return self.tensors[name].shape if name in self.tensors else None


def open_checkpoint(role: Role, directory: Path) -> Checkpoint:
    """Read `config.json` and all safetensors headers of `directory`; `InputError` if either is bad."""
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory ({role})")
    return Checkpoint(role, directory, load_object(directory / "config.json"), find_tensors(directory))
