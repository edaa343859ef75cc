"""Where a finding about an axis points."""

from __future__ import annotations

from truedraft.contract import Sourced

CONFIG = "draft/config.json"


def place(sourced: Sourced) -> str:
    """The key or tensor that states the axis; the whole config where a rule or a guess does."""
    source = sourced.source
    stated = source is not None and source.kind in ("stated", "shape")
    return source.where if source is not None and stated else CONFIG
