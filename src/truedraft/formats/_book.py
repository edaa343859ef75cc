"""The book that a reader fills: one entry per axis, conflicts noted, overrides applied as it goes.

Overrides enter at the moment an axis is settled, so whatever a reader derives from that axis later
follows the override by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from truedraft.contract import (
    AXES,
    Conflict,
    Contract,
    InputError,
    Sourced,
    TargetSpec,
    Value,
    family,
    not_applicable,
    unknown,
)
from truedraft.formats._overrides import Overrides


class AxisBook:
    """Collects the axes of one contract.

    `family_name` and `dialect` go into the contract; `reference` is the producer's published code, which
    vouches for `rule()`.
    """

    def __init__(
        self, family_name: str, dialect: str, reference: str, target: TargetSpec, overrides: Overrides
    ) -> None:
        self.family_name = family_name
        self.target = target
        self.overrides = overrides
        self._dialect = dialect
        self._reference = reference
        self._axes: dict[str, Sourced] = {}
        self._conflicts: list[Conflict] = []

    def rule(self, value: Value, detail: str = "") -> Sourced:
        """A value that the producer's code fixes."""
        return family(value, f"{self._reference}: {detail}" if detail else self._reference)

    def settle(
        self,
        name: str,
        claims: Iterable[Sourced | None],
        fallback: Sourced | None = None,
        *,
        note: str = "",
        remark: str = "",
    ) -> Sourced:
        """Enter an axis.

        The first claim wins and later ones that differ make a conflict, unless the axis is overridden.
        Without claims `fallback` is entered, or unknown with `note`. `remark` is noted on a known value.
        Raises `InputError` if a claim is not of the axis's type.
        """
        found = [self._checked(name, claim) for claim in claims if claim is not None]
        if found and any(claim.value != found[0].value for claim in found) and name not in self.overrides:
            distinct: dict[Value, Sourced] = {}
            for claim in found:
                distinct.setdefault(claim.value, claim)
            self._conflicts.append(Conflict(name, tuple(distinct.values())))
        if not found:
            found = [self._checked(name, fallback) if fallback is not None else unknown(note)]
        base = replace(found[0], note=remark) if remark and found[0].state == "value" else found[0]
        self._axes[name] = self.overrides.apply(base, name, self._count(name))
        return self._axes[name]

    def follow(self, name: str, value: Value, leader: str) -> Sourced:
        """Enter a value that an override of `leader` implies."""
        source = self._axes[leader].source
        base = Sourced("value", value, source, f"follows {leader}")
        self._axes[name] = self._checked(name, base)
        return self._axes[name]

    def settle_each(
        self,
        name: str,
        entries: Iterable[Sourced | None] = (),
        fallback: Sourced | None = None,
        *,
        note: str = "",
    ) -> Sourced:
        """Enter a per-layer or per-tap axis from claims that hold for every layer or tap alike."""
        count = self._count(name)
        if count is None:
            return self.settle(name, [], note=f"the number of {AXES[name].extent}s is unknown")
        spread = [replace(c, value=(c.value,) * count) if c else None for c in entries]
        default = replace(fallback, value=(fallback.value,) * count) if fallback else None
        return self.settle(name, spread, default, note=note)

    def skip(self, *names: str, note: str = "") -> None:
        """Enter axes as not applicable; `InputError` if one of them is overridden."""
        for name in names:
            for item in self.overrides.of(name):
                raise InputError(f"{item}: {name} does not apply to {note or f'family {self.family_name}'}")
            self._axes[name] = not_applicable(note or f"family {self.family_name} has none")

    def state(self, name: str) -> Sourced:
        """An axis entered before."""
        return self._axes[name]

    def value(self, name: str) -> Any:
        """The value of an axis entered before, or `None`."""
        return self._axes[name].value

    def value_or(self, name: str, default: Any) -> Any:
        """The value of an axis entered before, or `default` if it has none."""
        found = self._axes[name]
        return found.value if found.state == "value" else default

    def in_conflict(self, name: str) -> bool:
        """Whether sources disagree about the axis and no override settles it."""
        return any(conflict.axis == name for conflict in self._conflicts)

    def contract(self, unread_keys: tuple[str, ...]) -> Contract:
        """The contract; axes never entered are not applicable."""
        self.skip(*(name for name in AXES if name not in self._axes))
        axes = {name: self._axes[name] for name in AXES}
        return Contract(
            self.family_name, self._dialect, self.target, axes, tuple(self._conflicts), unread_keys
        )

    def _checked(self, name: str, claim: Sourced) -> Sourced:
        if claim.state != "value":
            return claim
        AXES[name].check(claim.value, claim.source.where if claim.source else name)
        return replace(claim, value=AXES[name].normal(claim.value))

    def _count(self, name: str) -> int | None:
        extent = AXES[name].extent
        leader = {"layer": "backbone.layers", "tap": "taps.layers"}.get(extent)
        if leader is None or leader == name or leader not in self._axes:
            return None
        value = self._axes[leader].value
        if isinstance(value, tuple):
            return len(value)
        return value if isinstance(value, int) else None


def integer(value: Value) -> int:
    """A value whose axis is a whole number, for arithmetic."""
    if not isinstance(value, int):
        raise TypeError(f"expected a whole number, found {value!r}")
    return value
