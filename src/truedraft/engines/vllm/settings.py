"""`TRUEDRAFT` and its companions: what the user asks the plugin to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["off", "warn", "error", "fix"]

MODES: tuple[Mode, ...] = ("off", "warn", "error", "fix")
VARIABLE, SET, MEASURED = "TRUEDRAFT", "TRUEDRAFT_SET", "TRUEDRAFT_MEASURED"


@dataclass(frozen=True)
class Settings:
    """The plugin's orders.

    `axes`: what `fix` may touch, names of axes or of groups (`rope`); empty means all. `overrides`:
    `axis=value`, as `--set`. `measured`: a report of `truedraft probe --json`.
    """

    mode: Mode = "off"
    axes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    measured: Path | None = None

    def mends(self, axis: str) -> bool:
        """Whether `fix` is on for an axis."""
        named = any(axis == name or axis.startswith(f"{name}.") for name in self.axes)
        return self.mode == "fix" and (named or not self.axes)


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The orders of an environment; unset means off. Raises `ValueError` naming the variable.

    Off is the default because an installed plugin runs in every vLLM process of its environment, also in
    those of people who installed truedraft for `check` alone.
    """
    word, colon, rest = environment.get(VARIABLE, "").strip().partition(":")
    mode = word.strip().lower() or "off"
    if mode not in MODES:
        raise ValueError(f"{VARIABLE}={word!r:.40}: expected one of {', '.join(MODES)}")
    axes = tuple(name.strip() for name in rest.split(",") if name.strip())
    if (axes and mode != "fix") or (colon and not axes):
        raise ValueError(f"{VARIABLE}={mode}:{rest!s:.40}: only fix takes axes, as in fix:taps,rope.theta")
    _check_axes(axes)
    overrides = tuple(environment.get(SET, "").replace(";", " ").split())
    measured = environment.get(MEASURED, "").strip()
    return Settings(mode, axes, overrides, Path(measured) if measured else None)


def _check_axes(names: tuple[str, ...]) -> None:
    """Raise `ValueError` for a name that is neither an axis nor a group of axes."""
    if not names:
        return
    from truedraft.contract import AXES

    known = {*AXES, *(axis.partition(".")[0] for axis in AXES)}
    for name in names:
        if name not in known:
            raise ValueError(
                f"{VARIABLE}=fix: no axis and no group {name!r:.40}, `truedraft contract` lists them"
            )
