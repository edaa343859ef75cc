"""The known checkpoint families. Adding one is a reader module and a line in `READERS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from truedraft.contract import Contract, TargetSpec, UnsupportedError
from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._overrides import Overrides
from truedraft.formats._unsupported import find_unsupported
from truedraft.formats.readers import (
    assistant,
    deepseek_v4,
    deepspec,
    deepspec_eagle3,
    eagle3,
    laguna,
    specforge,
    speculators,
    zlab,
)


class Reader(Protocol):
    """What a reader module offers."""

    DESCRIPTION: str

    def matches(self, config: Mapping[str, Any], /) -> bool:
        """Whether the draft config is of this reader's dialect."""

    def read(self, target: TargetSpec, draft: Checkpoint, overrides: Overrides, /) -> Contract:
        """The contract; `InputError` if the files contradict themselves or the target."""


@runtime_checkable
class Renaming(Reader, Protocol):
    """A reader whose layout does not have the canonical tensor names (`layouts.expected`)."""

    def canonical(self, draft: Checkpoint, /) -> Checkpoint:
        """`draft` with its tensors under canonical names, before `read` sees it."""


READERS: tuple[Reader, ...] = (
    speculators,
    deepseek_v4,
    specforge,
    deepspec,
    deepspec_eagle3,
    zlab,
    eagle3,
    assistant,
    laguna,
)
"""In this order: SpecForge's exports for SGLang carry DeepSpec's architecture."""


def find_reader(draft: Checkpoint) -> Reader:
    """The reader for a draft checkpoint; `UnsupportedError` if its family is not read or not known."""
    if (family := find_unsupported(draft.config)) is not None:
        where = f"{draft.role}/config.json"
        raise UnsupportedError(f"{where}: found {family.name}, which is not supported: {family.reason}")
    for reader in READERS:
        if reader.matches(draft.config):
            return reader
    known = "; ".join(reader.DESCRIPTION for reader in READERS)
    raise UnsupportedError(f"{draft.directory}: unknown family: {_signature(draft.config)}; known: {known}")


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
