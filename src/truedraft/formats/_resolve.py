"""`resolve()`: from two directories and the user's overrides to a contract and its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from truedraft.contract import Contract
from truedraft.formats._bundled import locate_pair
from truedraft.formats._checkpoint import Checkpoint, open_checkpoint
from truedraft.formats._overrides import Overrides
from truedraft.formats._registry import Renaming, find_reader
from truedraft.formats._safetensors import TensorRef
from truedraft.formats._target import read_target
from truedraft.formats.layouts import map_tensors


@dataclass(frozen=True)
class Resolution:
    """A resolved pair.

    `draft`: as its reader sees it, with canonical tensor names. `tensors`: the tensors that the drafter
    needs, by canonical name; empty without weights.
    """

    contract: Contract
    target: Checkpoint
    draft: Checkpoint
    tensors: Mapping[str, TensorRef]


def resolve(target: str | Path, draft: str | Path | None = None, overrides: Iterable[str] = ()) -> Resolution:
    """Read the contract of a pair from its files; weights are not read.

    `target`, `draft`: a directory or the name of a bundled pair (`tiny`, `tiny/dspark`); without `draft` the
    bundled pair's own drafter is meant. `overrides`: `axis=value` or `axis[entry]=value`, a later one wins.
    Raises `InputError` if files or overrides cannot be used. Unknown axes and conflicts are no errors, they
    are in the contract.
    """
    target_directory, draft_directory = locate_pair(target, draft)
    parsed = Overrides(overrides)
    target_checkpoint = open_checkpoint("target", target_directory)
    draft_checkpoint = open_checkpoint("draft", draft_directory)
    spec = read_target(target_checkpoint)
    reader = find_reader(draft_checkpoint)
    if isinstance(reader, Renaming):
        draft_checkpoint = reader.canonical(draft_checkpoint)
    contract = reader.read(spec, draft_checkpoint, parsed)
    tensors, unused = map_tensors(contract, draft_checkpoint)
    contract = replace(contract, unread_keys=(*contract.unread_keys, *unused))
    return Resolution(contract, target_checkpoint, draft_checkpoint, MappingProxyType(tensors))
