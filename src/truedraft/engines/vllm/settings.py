"""`TRUEDRAFT` and its companions: what the user asks the plugin to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["off", "warn", "error", "fix"]

MODES: tuple[Mode, ...] = ("off", "warn", "error", "fix")
VARIABLE, SET, MEASURED = "TRUEDRAFT", "TRUEDRAFT_SET", "TRUEDRAFT_MEASURED"
TRACE, TRACE_ROUNDS = "TRUEDRAFT_TRACE", "TRUEDRAFT_TRACE_ROUNDS"
ROUNDS, MOST_ROUNDS = 32, 100_000
"""Rounds that are traced where the user does not say how many, and at most."""


@dataclass(frozen=True)
class Settings:
    """The plugin's orders.

    `axes`: what `fix` may touch, names of axes or of groups (`rope`); empty means all. `overrides`:
    `axis=value`, as `--set`. `measured`: a report of `truedraft probe --json`. `trace`: a file to record the
    first `trace_rounds` rounds in, whatever the mode.
    """

    mode: Mode = "off"
    axes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    measured: Path | None = None
    trace: Path | None = None
    trace_rounds: int = ROUNDS

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
    measured, trace = (environment.get(name, "").strip() for name in (MEASURED, TRACE))
    return Settings(
        mode,
        axes,
        overrides,
        Path(measured) if measured else None,
        Path(trace).absolute() if trace else None,
        _rounds(environment.get(TRACE_ROUNDS, "").strip()),
    )


def _rounds(word: str) -> int:
    if not word:
        return ROUNDS
    if not word.isascii() or not word.isdigit() or not 0 < int(word[:9]) <= MOST_ROUNDS:
        raise ValueError(f"{TRACE_ROUNDS}={word!r:.40}: expected a number from 1 to {MOST_ROUNDS}")
    return int(word)


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
