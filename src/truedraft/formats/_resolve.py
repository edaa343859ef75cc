"""`resolve()`: from two directories and the user's overrides to a contract and its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from truedraft.contract import Contract, PairError, Sourced, TargetSpec, UnsupportedError
from truedraft.formats._bundled import locate_pair
from truedraft.formats._checkpoint import Checkpoint, open_checkpoint
from truedraft.formats._overrides import Overrides
from truedraft.formats._registry import Renaming, find_reader
from truedraft.formats._safetensors import TensorRef
from truedraft.formats._target import read_target
from truedraft.formats.layouts import map_tensors, unused_tensors


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


@dataclass(frozen=True)
class Inspection:
    """A pair whose files were read, whether or not they make a contract.

    `refusal`: why there is none: the files contradict each other, or no reader covers the family.
    """

    spec: TargetSpec
    target: Checkpoint
    draft: Checkpoint
    contract: Contract | None
    refusal: PairError | UnsupportedError | None = None


def resolve(
    target: str | Path,
    draft: str | Path | None = None,
    overrides: Iterable[str] = (),
    measured: Mapping[str, Sourced] | None = None,
) -> Resolution:
    """Read the contract of a pair from its files; weights are not read.

    `target`, `draft`: a directory or the name of a bundled pair (`tiny`, `tiny/dspark`); without `draft` the
    bundled pair's own drafter is meant, or the one inside the target's checkpoint. `overrides`: `axis=value`
    or `axis[entry]=value`, a later one wins. `measured`: what a probe found (`read_measured`). Raises
    `InputError` if files or overrides cannot be used. Unknown axes and conflicts are no errors, they are in
    the contract.
    """
    found = inspect(target, draft, overrides, measured)
    if found.contract is None:
        assert found.refusal is not None
        raise found.refusal
    tensors = MappingProxyType(map_tensors(found.contract, found.draft))
    return Resolution(found.contract, found.target, found.draft, tensors)


def inspect(
    target: str | Path,
    draft: str | Path | None = None,
    overrides: Iterable[str] = (),
    measured: Mapping[str, Sourced] | None = None,
) -> Inspection:
    """As `resolve`, for those who want to say what is wrong: a contradiction or a tensor that is missing or
    misshapen is not raised. Raises `InputError` for files that cannot be read and for bad overrides.
    """
    target_directory, draft_directory = locate_pair(target, draft)
    parsed = Overrides(overrides, measured)
    target_checkpoint = open_checkpoint("target", target_directory)
    draft_checkpoint = open_checkpoint("draft", draft_directory)
    spec = read_target(target_checkpoint)
    try:
        reader = find_reader(draft_checkpoint)
        if isinstance(reader, Renaming):
            draft_checkpoint = reader.canonical(draft_checkpoint)
        contract = reader.read(spec, draft_checkpoint, parsed)
    except (PairError, UnsupportedError) as refusal:
        return Inspection(spec, target_checkpoint, draft_checkpoint, None, refusal)
    unused = tuple(draft_checkpoint.where_tensor(n) for n in unused_tensors(contract, draft_checkpoint))
    contract = replace(contract, unread_keys=(*contract.unread_keys, *unused))
    return Inspection(spec, target_checkpoint, draft_checkpoint, contract)
