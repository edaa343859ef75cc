"""Keys below one object of a config, read as if they stood at the top."""

from __future__ import annotations

from typing import Any

from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._keys import Keys, Kind

DECODER = "transformer_layer_config"


class NestedKeys(Keys):
    """A view of `keys` below `parent`, for readers of a plain decoder config.

    What is read here counts as read in `keys`, which alone knows what stays unread.
    """

    def __init__(self, draft: Checkpoint, keys: Keys, parent: str) -> None:
        super().__init__(draft)
        self._keys = keys
        self._parent = parent

    def where(self, pointer: str) -> str:
        """`draft/config.json#/parent/pointer`."""
        return self._keys.where(f"{self._parent}/{pointer}")

    def has(self, pointer: str) -> bool:
        """Whether the key exists below the parent."""
        return self._keys.has(f"{self._parent}/{pointer}")

    def get(self, pointer: str, kind: Kind) -> Any:
        """The value below the parent."""
        return self._keys.get(f"{self._parent}/{pointer}", kind)

    def ignore(self, *pointers: str) -> None:
        """Declare keys below the parent inert."""
        self._keys.ignore(*(f"{self._parent}/{pointer}" for pointer in pointers))

    def unread(self) -> tuple[str, ...]:
        """Nothing: the whole config's `Keys` report what is left."""
        return ()


def decoder_keys(draft: Checkpoint) -> Keys:
    """The keys of the draft decoder: below `transformer_layer_config` in speculators' format."""
    keys = Keys(draft)
    nested = isinstance(draft.config.get(DECODER), dict)
    return NestedKeys(draft, keys, DECODER) if nested else keys
