"""Which releases of vLLM the plugin reads from their live objects."""

from __future__ import annotations

import re

from truedraft.contract import InputError
from truedraft.formats.engines import Engine, find_engines

TESTED = "0.32"
"""The minor release whose objects are read; attribute names of others were not compared."""


def is_tested(version: str) -> bool:
    """Whether a version is in the tested range, 0.32.x (also with a local part, `0.32.0+cpu`)."""
    return re.fullmatch(rf"{re.escape(TESTED)}(\.\d+)?(\+.*)?", version) is not None


def known_release(version: str, runner: str) -> Engine | None:
    """What is known of a release from its source, or of the newest of the same minor release."""
    plain = re.match(r"\d+\.\d+(\.\d+)?", version)
    if plain is None:
        return None
    for name in (plain[0], ".".join(plain[0].split(".")[:2])):
        try:
            return find_engines(f"vllm:{name}:{runner}")[0]
        except InputError:
            continue
    return None
