"""The axis: one convention that target and drafter must share, as an object.

An axis knows its name, its type, how to parse and check a value, which families require it, and the
other values that are worth trying. The table of all axes is `AXES` in `_axes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from truedraft.contract._errors import InputError, PairError
from truedraft.contract._values import Record, Value, ValueType, format_value

if TYPE_CHECKING:
    from truedraft.contract._contract import Contract

Extent: TypeAlias = Literal["scalar", "layer", "tap"]
Alternatives: TypeAlias = "Callable[[Contract], tuple[Value, ...]]"


def no_alternatives(_contract: Contract) -> tuple[Value, ...]:
    """For axes whose other values are not hypotheses (sizes, sources)."""
    return ()


@dataclass(frozen=True)
class Axis:
    """One convention.

    `extent`: `scalar`, or a tuple over draft layers or over taps. `open_length`: the tuple's length is
    the value's own (the list of taps), not fixed by another axis. `required_by`: families whose
    drafters cannot run while the axis is unknown. `guesses`: entries worth trying where nothing is known.
    """

    name: str
    type: ValueType
    meaning: str
    extent: Extent = "scalar"
    open_length: bool = False
    required_by: frozenset[str] = frozenset()
    alternatives: Alternatives = no_alternatives
    guesses: tuple[Value, ...] = ()

    def candidates(self, contract: Contract) -> tuple[Value, ...]:
        """The values that this axis may have: its own or its claims first, then those worth trying.

        For an unknown axis: every option of its type, or `guesses`, alike in all layers or taps. Empty where
        nothing is worth trying.
        """
        sourced = contract.axes[self.name]
        if sourced.state == "not_applicable":
            return ()
        if sourced.state == "unknown":
            return self._spread(contract, self.type.options or self.guesses)
        claims = [
            c.value for conflict in contract.conflicts if conflict.axis == self.name for c in conflict.sources
        ]
        others = [value for value in self.alternatives(contract) if value != ()]
        own = (sourced.value, *claims)
        found = tuple(dict.fromkeys(self.normal(value) for value in (*own, *others)))
        return found if len(found) > 1 else ()

    def _spread(self, contract: Contract, entries: tuple[Value, ...]) -> tuple[Value, ...]:
        if self.extent == "scalar":
            return entries
        count = self.count(contract)
        return tuple((entry,) * count for entry in entries) if count else ()

    def count(self, contract: Contract) -> int | None:
        """Entries of a tuple, one per draft layer or tap; `None` for scalars and where nothing fixes it."""
        if self.extent == "scalar" or self.open_length:
            return None
        leader: Any = contract.get("backbone.layers" if self.extent == "layer" else "taps.layers")
        return len(leader) if isinstance(leader, tuple) else leader

    @property
    def group(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]

    @property
    def remedy(self) -> str:
        """The `--set` that would settle this axis, and what it expects."""
        each = {
            "scalar": "",
            "layer": " (one for all draft layers, or one per layer)",
            "tap": " (one per tap)",
        }
        return f"--set {self.name}=VALUE, {self.type.expects}{each[self.extent]}"

    def parse(self, text: str, count: int | None) -> Value:
        """The value that `text` stands for.

        `count`: number of draft layers or taps, for a tuple axis; one entry given is repeated for all.
        Raises `InputError` that names the axis, what was found and what is expected.
        """
        if self.extent == "scalar":
            return self._parse_scalar(text)
        entries: list[Value] = []
        for item in text.split(","):
            repeated = re.fullmatch(r"([0-9]{1,4})[x×](.+)", item.strip())
            times, word = (int(repeated[1]), repeated[2]) if repeated else (1, item)
            entries += [self._parse_scalar(word)] * times
        if not self.open_length and count is not None:
            if len(entries) == 1:
                entries *= count
            if len(entries) != count:
                raise InputError(
                    f"--set {self.name}={text}: found {len(entries)} entries, "
                    f"expected 1 or {count} (one per {self.extent})"
                )
        return tuple(entries)

    def _parse_scalar(self, text: str) -> Value:
        word = text.strip()
        try:
            value = self.type.parse(word)
        except (ValueError, OverflowError):
            value = None
            valid = False
        else:
            valid = self.type.accepts(value)
        if not valid:
            raise InputError(f"--set {self.name}: found {word!r:.80}, expected {self.type.expects}")
        return value

    def check(self, value: Value, where: str) -> None:
        """Raise `PairError` naming `where` unless `value` is of this axis's type."""
        entries = value if isinstance(value, tuple) and self.extent != "scalar" else (value,)
        if self.extent != "scalar" and not isinstance(value, tuple):
            raise InputError(f"{where}: found {value!r}, expected a list ({self.type.expects} each)")
        for entry in entries:
            if not self.type.accepts(entry):
                found = format_value(entry) if isinstance(entry, Record) else repr(entry)
                raise PairError("value", where, f"{found:.80}", self.type.expects, axis=self.name)

    def normal(self, value: Value) -> Value:
        """The one form of a checked value, so that equal meanings hash alike."""
        if self.extent != "scalar" and isinstance(value, tuple):
            return tuple(self.type.normal(entry) for entry in value)
        return self.type.normal(value)
