"""`Arm`: what one arm of a comparison counted, per boot and prompt.

Records are folded into counts as they come, so that memory grows with boots, prompts and K, not with rounds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from truedraft.contract import AcceptanceRecord, InputError

SETTINGS = (
    *("engine", "version", "runner", "contract_hash", "batch_size", "temperature", "top_p", "top_k"),
    *("thinking", "proposal", "verification", "confidence_threshold", "tree_budget", "truncated"),
)
"""Fields of a record that describe the run; one that differs between arms may be what makes the change."""

DEFINING = ("tree_budget", "truncated")
"""Of these, an arm has one value: figures under several definitions have no meaning together. So with K."""


@dataclass
class Cell:
    """One prompt in one boot: (proposed, accepted) -> rounds over all its requests, and their outputs."""

    table: Counter[tuple[int, int]] = field(default_factory=Counter)
    outputs: list[str] = field(default_factory=list)
    started: list[float] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Verification rounds."""
        return self.table.total()

    @property
    def text(self) -> tuple[str, ...] | None:
        """Hashes of the outputs in no particular order; `None` if a source did not give one."""
        return tuple(sorted(self.outputs)) if all(self.outputs) else None


class Arm:
    """Counts of one arm. `cells[boot][prompt]`; `categories[prompt]` is empty where no source told."""

    def __init__(self, name: str, records: Iterable[AcceptanceRecord] = ()) -> None:
        self.name = name
        self.cells: dict[str, dict[str, Cell]] = defaultdict(lambda: defaultdict(Cell))
        self.categories: dict[str, str] = {}
        self.settings: dict[str, set[Any]] = {key: set() for key in SETTINGS}
        self._width: dict[str, int] = {}
        for record in records:
            self.add(record)

    def add(self, record: AcceptanceRecord, boot: str | None = None) -> None:
        """Count a record, in the boot that it names or in `boot`.

        Raises `InputError` if it was counted under another definition than the arm's other records, or gives
        a prompt another category.
        """
        for key, values in self.settings.items():
            values.add(getattr(record, key))
            if key in DEFINING and len(values) > 1:
                raise _mixed(self.name, key, values)
        boot = record.boot if boot is None else boot
        self._count_width(record, boot)
        prompt, category = record.prompt_id, record.category
        known = self.categories.setdefault(prompt, category)
        if category != known:
            raise InputError(
                f"{self.name}: prompt {prompt!r:.80}: found the categories {known!r:.80} and "
                f"{category!r:.80}, expected one"
            )
        cell = self.cells[boot][prompt]
        cell.table.update({key: rounds for key, rounds in record.table.items() if rounds})
        cell.outputs.append(record.output_hash)
        cell.started.append(record.started)

    @property
    def boots(self) -> tuple[str, ...]:
        """Names of the boots, sorted: the order of the records changes nothing."""
        return tuple(sorted(self.cells))

    @property
    def rounds(self) -> int:
        """Rounds over all boots and prompts."""
        return sum(cell.rounds for cells in self.cells.values() for cell in cells.values())

    def _count_width(self, record: AcceptanceRecord, boot: str) -> None:
        """Our records state K; those of an engine's counts have the request's longest draft instead."""
        known = self._width.setdefault(boot, record.K)
        if known != record.K and record.truncated == "kept":
            raise _mixed(self.name, "K", (known, record.K))
        self._width[boot] = max(known, record.K)

    @property
    def K(self) -> int:
        """Drafts per round that were asked for, at most. Raises `InputError` if boots differ."""
        widths = set(self._width.values())
        if len(widths) > 1:
            raise _mixed(self.name, "K", widths)
        return widths.pop()

    def setting(self, key: str) -> Any:
        """The one value of a `DEFINING` setting."""
        (value,) = self.settings[key]
        return value

    def started(self, boot: str) -> float:
        """When the boot's first request started (Unix time); 0 if a source did not say."""
        return min(time for cell in self.cells[boot].values() for time in cell.started)

    def prompts_of_all_boots(self) -> set[str]:
        """Prompts that every boot decoded, in at least one round each."""
        shared = [{p for p, cell in cells.items() if cell.rounds} for cells in self.cells.values()]
        return set.intersection(*shared) if shared else set()

    @property
    def names_prompts(self) -> bool:
        """Whether the source told prompts apart."""
        return set(self.categories) != {""}

    def runs_also_in(self, other: Arm) -> tuple[str, str] | None:
        """A boot that `other` holds too, under either name: every prompt, count, output and time the same."""
        theirs = {other._run(boot): boot for boot in other.boots if other.started(boot) > 0}
        return next(((boot, theirs[run]) for boot in self.boots if (run := self._run(boot)) in theirs), None)

    def _run(self, boot: str) -> frozenset[Any]:
        cells = self.cells[boot].items()
        return frozenset(
            (prompt, cell.text, frozenset(cell.table.items()), tuple(sorted(cell.started)))
            for prompt, cell in cells
        )

    @property
    def repeats_itself(self) -> bool:
        """Whether there are several boots and all counted the same: then they show no spread."""
        return len(self.cells) > 1 and len({self._counted(boot) for boot in self.cells}) == 1

    def _counted(self, boot: str) -> frozenset[Any]:
        """What a boot counted, to compare it with others: prompts, texts and tables, no times."""
        cells = self.cells[boot].items()
        return frozenset((prompt, cell.text, frozenset(cell.table.items())) for prompt, cell in cells)

    def same_counts(self) -> tuple[str, str, bool] | None:
        """Two boots that counted the same for every prompt, and whether they are one and the same run.

        A run is the same if every request also started at the same time: someone copied a file.
        """
        seen: dict[Any, str] = {}
        for boot in self.boots:
            cells, key = self.cells[boot], self._counted(boot)
            if key in seen:
                other = self.cells[seen[key]]
                times = [sorted(cell.started) for cell in cells.values()]
                copied = any(map(any, times)) and all(
                    sorted(other[p].started) == sorted(cell.started) for p, cell in cells.items()
                )
                return seen[key], boot, copied
            seen[key] = boot
        return None


def _mixed(name: str, key: str, values: Iterable[Any]) -> InputError:
    both = " and ".join(sorted(map(str, values)))
    return InputError(f"{name}: found records with {key} {both}, expected one {key} per arm")
