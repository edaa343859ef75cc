"""Models that `truedraft fetch` puts into a cache directory, and where they lie there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from truedraft.contract import InputError

CACHE_VARIABLE = "TRUEDRAFT_CACHE"

FETCHABLE = ("smollm2",)
"""Names that stand for a fetched target; what each is fetched from is `truedraft.fetch.SOURCES`."""


def cache_directory() -> Path:
    """`TRUEDRAFT_CACHE`, else the platform's directory for files that can be made again."""
    if stated := os.environ.get(CACHE_VARIABLE):
        return Path(stated)
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local", "truedraft", "Cache")
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "truedraft"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache", "truedraft")


def fetched_directory(name: str) -> Path:
    """The directory of a fetched target. Raises `InputError` if it is not there yet."""
    directory = cache_directory() / name
    if not directory.is_dir():
        raise InputError(f"{name}: not fetched yet (looked in {directory}); run: truedraft fetch {name}")
    return directory
