"""Where a target's stop tokens are stated."""

from __future__ import annotations

from typing import Any

from truedraft.formats._checkpoint import Checkpoint
from truedraft.formats._inside import find_file
from truedraft.formats._json import load_object

_GENERATION = "generation_config.json"


def stated_in_generation(checkpoint: Checkpoint) -> Any:
    """`eos_token_id` of `generation_config.json`, or `None`; `InputError` if the file is bad."""
    path = find_file(checkpoint.directory, _GENERATION)
    return None if path is None else load_object(path).get("eos_token_id")


def stop_tokens_where(checkpoint: Checkpoint) -> str:
    """The file and key that count: `target/generation_config.json#/eos_token_id`, or the config's."""
    own = stated_in_generation(checkpoint) is not None
    return checkpoint.where("/eos_token_id", _GENERATION if own else "config.json")
