"""Where acceptance records come from: our own decoder, and `sources`, what other engines print.

Only our own decoder needs torch; its names are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truedraft.measure.cost import Cost
    from truedraft.measure.lossless import Lossless
    from truedraft.measure.run import Output, Prompt, RunReport, Speed, run_pair
    from truedraft.measure.teacher_forced import accepted_along, replay

__all__ = [
    "Cost",
    "Lossless",
    "Output",
    "Prompt",
    "RunReport",
    "Speed",
    "accepted_along",
    "replay",
    "run_pair",
]

_HOMES = {
    "truedraft.measure.cost": ("Cost",),
    "truedraft.measure.lossless": ("Lossless",),
    "truedraft.measure.run": ("Output", "Prompt", "RunReport", "Speed", "run_pair"),
    "truedraft.measure.teacher_forced": ("accepted_along", "replay"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'truedraft.measure' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
