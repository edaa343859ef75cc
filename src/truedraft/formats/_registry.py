"""The known checkpoint families. Adding one is a reader module and a line in `READERS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from truedraft.contract import Contract, InputError, TargetSpec
from truedraft.formats import deepspec, zlab
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._overrides import Overrides


class Reader(Protocol):
    """What a reader module offers."""

    DESCRIPTION: str

    def matches(self, config: Mapping[str, Any], /) -> bool:
        """Whether the draft config is of this reader's dialect."""

    def read(self, target: TargetSpec, draft: Checkpoint, overrides: Overrides, /) -> Contract:
        """The contract; `InputError` if the files contradict themselves or the target."""


READERS: tuple[Reader, ...] = (zlab, deepspec)


def find_reader(draft: Checkpoint) -> Reader:
    """The reader for a draft checkpoint; `InputError` listing the known families if there is none."""
    for reader in READERS:
        if reader.matches(draft.config):
            return reader
    known = "; ".join(reader.DESCRIPTION for reader in READERS)
    raise InputError(f"{draft.directory}: unknown family: {_signature(draft.config)}; known: {known}")


def _signature(config: Mapping[str, Any]) -> str:
    parts = [
        f"{key} {config[key]!r:.80}"
        for key in ("speculators_model_type", "architectures", "model_type")
        if config.get(key) is not None
    ]
    nested = config.get("dflash_config")
    if isinstance(nested, dict) and nested.get("projector_type") is not None:
        parts.append(f"projector_type {nested['projector_type']!r:.80}")
    return ", ".join(parts) or "config.json states neither architectures nor model_type"
