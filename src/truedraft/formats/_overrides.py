"""`--set axis=value` and `--set axis[i]=value`, parsed far enough to know which axes they touch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from truedraft.contract import AXES, InputError, Sourced, Value, override


@dataclass(frozen=True)
class Override:
    """One `--set`. `index`: entry of a tuple axis, or `None` for the whole value."""

    axis: str
    index: int | None
    text: str

    def __str__(self) -> str:
        entry = "" if self.index is None else f"[{self.index}]"
        return f"--set {self.axis}{entry}={self.text}"


class Overrides:
    """All overrides of one resolution, in the order given; a later one wins.

    `measured`: what a probe found, by axis. It replaces what the files say, and overrides go on top.
    """

    def __init__(self, items: Iterable[str] = (), measured: Mapping[str, Sourced] | None = None) -> None:
        self._items = tuple(_parse(item) for item in items)
        self._measured = dict(measured or {})

    def __contains__(self, axis: str) -> bool:
        return axis in self._measured or any(item.axis == axis for item in self._items)

    def of(self, axis: str) -> tuple[Override, ...]:
        """The overrides of one axis."""
        return tuple(item for item in self._items if item.axis == axis)

    def apply(self, base: Sourced, axis: str, count: int | None) -> Sourced:
        """`base` with the overrides of `axis` on top.

        `count`: number of draft layers or taps where known. Raises `InputError` on a bad value or index.
        """
        base = self._measured.get(axis, base)
        for item in self.of(axis):
            whole = item.index is None
            value = AXES[axis].parse(item.text, count) if whole else self._with_entry(base, item)
            base = override(AXES[axis].normal(value), str(item))
        return base

    def _with_entry(self, base: Sourced, item: Override) -> Value:
        axis = AXES[item.axis]
        if axis.extent == "scalar":
            raise InputError(f"{item}: {item.axis} has one value, expected --set {item.axis}=VALUE")
        if not isinstance(base.value, tuple):
            raise InputError(f"{item}: the other entries are unknown, expected --set {item.axis}=A,B,…")
        assert item.index is not None
        if item.index >= len(base.value):
            raise InputError(f"{item}: found entry {item.index}, expected 0 to {len(base.value) - 1}")
        entry = axis.parse(item.text, 1)
        if not isinstance(entry, tuple) or len(entry) != 1:
            raise InputError(f"{item}: expected one value for one entry")
        return (*base.value[: item.index], entry[0], *base.value[item.index + 1 :])


def _parse(item: str) -> Override:
    match = re.fullmatch(r"([^=\[\]]+)(?:\[([0-9]{1,6})\])?=(.*)", item.strip(), re.DOTALL)
    if match is None:
        raise InputError(f"--set {item[:80]}: expected axis=value or axis[entry]=value")
    axis, index, text = match[1].strip(), match[2], match[3].strip()
    if axis not in AXES:
        near = difflib.get_close_matches(axis, AXES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "`truedraft contract` lists all axes"
        raise InputError(f"--set {axis[:80]}: no such axis; {hint}")
    if text == "":
        raise InputError(f"--set {axis}: found no value, expected {AXES[axis].type.expects}")
    return Override(axis, None if index is None else int(index), text)
