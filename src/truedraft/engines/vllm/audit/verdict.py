"""From what a release's functions returned to verdicts: a contract of their values, and `diff`.

No verdict is written by hand: what is expected is the native reader's contract of the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from truedraft.contract import AXES, Contract, Source, Sourced, Value, diff, format_value, to_json
from truedraft.engines.vllm.audit.observe import STEPS
from truedraft.engines.vllm.audit.rope import full_scaling
from truedraft.engines.vllm.audit.seen import Seen, Stopped
from truedraft.formats.engines import Reading

Verdict = Literal["honoured", "misread", "ignored", "not callable"]


@dataclass(frozen=True)
class Cell:
    """One axis of one pair on one runner.

    `ignored`: the value is another one and the key that states it was never read; `misread`: it was.
    `read`: whether the key that states the axis was; a value may be right without.
    `static`: what `check --engine` says where the release's functions say something else, or empty.
    """

    verdict: Verdict
    expected: Value = None
    found: Value = None
    by: str = ""
    why: str = ""
    static: str = ""
    read: bool = True

    @property
    def differs(self) -> bool:
        """Whether the release would run another value."""
        return self.verdict in ("misread", "ignored")

    def to_json(self) -> dict[str, Any]:
        """Fields that say something."""
        if self.verdict == "not callable":
            return {"verdict": self.verdict, "why": self.why}
        out: dict[str, Any] = {"verdict": self.verdict, "expected": to_json(self.expected)}
        if self.differs:
            out |= {"found": to_json(self.found), "by": self.by}
        if not self.read and not self.differs:
            out["unread"] = True
        return out | ({"static": self.static} if self.static else {})


@dataclass(frozen=True)
class Judged:
    """One pair on one runner. `refused`: why the release does not run it; `static_refused`: check's words.

    `fixes`: what `check` proposes for what differs.
    """

    cells: Mapping[str, Cell]
    refused: tuple[str, ...]
    stopped: tuple[Stopped, ...]
    static_refused: tuple[str, ...] = ()
    static_known: bool = True
    fixes: tuple[str, ...] = ()

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Where `check --engine` says something else than the release's functions."""
        out = [f"{axis}: {cell.static}" for axis, cell in self.cells.items() if cell.static]
        if self.static_known and self.refused and not self.static_refused:
            out.append(f"refusal: {self.refused[0]}; check names none")
        return tuple(out)


def judge(
    native: Contract, found: list[Seen | Stopped], reads: frozenset[str], reading: Reading | None
) -> Judged:
    """Compare what was seen with the contract, and with the static reading if the release has one."""
    seen = {entry.axis: entry for entry in found if isinstance(entry, Seen)}
    stopped = tuple(entry for entry in found if isinstance(entry, Stopped))
    known = {axis: entry for axis, entry in seen.items() if native.axes[axis].state == "value"}
    left, right = _spelled(native, {}), _spelled(native, known)
    differs = {entry.axis for entry in diff(left, right)}
    stated = None if reading is None or reading.refused else _spelled(reading.contract, {})
    cells = {}
    for axis in AXES:
        if axis in known:
            expected, value = left.axes[axis].value, right.axes[axis].value
            read = _was_read(native.axes[axis], reads)
            verdict: Verdict = ("misread" if read else "ignored") if axis in differs else "honoured"
            other = _contradiction(stated, axis, value)
            cells[axis] = Cell(verdict, expected, value, known[axis].by, "", other, read)
    for stop in stopped:
        for axis in () if stop.refused else STEPS.get(stop.step, ()):
            if axis not in cells and native.axes[axis].state == "value":
                cells[axis] = Cell("not callable", why=stop.why)
    ordered = {axis: cells[axis] for axis in AXES if axis in cells}
    refused = tuple(dict.fromkeys(stop.why for stop in stopped if stop.refused))
    static = () if reading is None else tuple(entry.why for entry in reading.refusals)
    return Judged(ordered, refused, stopped, static, reading is not None, _fixes(reading, ordered, refused))


def _fixes(reading: Reading | None, cells: Mapping[str, Cell], refused: tuple[str, ...]) -> tuple[str, ...]:
    """The flags and edits that the reading of the release names."""
    if reading is None:
        return ()
    texts = [entry.fix for entry in reading.refusals]
    if not refused and not reading.refused:
        texts += [fact.fix for axis, fact in reading.facts.items() if axis in cells and cells[axis].differs]
    return tuple(dict.fromkeys(text for text in texts if text))


def _spelled(contract: Contract, values: Mapping[str, Seen]) -> Contract:
    """The contract with values put in, and scalings written out in full."""
    axes = dict(contract.axes)
    for axis, entry in values.items():
        value = AXES[axis].normal(entry.value)
        axes[axis] = replace(axes[axis], value=value, source=Source("family", entry.by))
    scaling = axes["rope.scaling"]
    if isinstance(scaling.value, tuple):
        full = AXES["rope.scaling"].normal(tuple(map(full_scaling, scaling.value)))
        axes["rope.scaling"] = replace(scaling, value=full)
    return replace(contract, axes=axes)


def _was_read(sourced: Sourced, reads: frozenset[str]) -> bool:
    """Whether the key that states an axis was read, wherever conversions moved it."""
    if sourced.source is None or sourced.source.kind != "stated":
        return True
    key = sourced.source.where.rpartition("/")[2]
    return any(read.rpartition("/")[2] == key for read in reads)


def _contradiction(stated: Contract | None, axis: str, value: Value) -> str:
    if stated is None or stated.axes[axis].state != "value" or stated.axes[axis].value == value:
        return ""
    says, runs = format_value(stated.axes[axis].value), format_value(value)
    return f"check says {says}, the release's functions give {runs}"
