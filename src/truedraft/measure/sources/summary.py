"""`Summary`: everything that the sources of one call say, kept apart where it does not mean the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from truedraft.contract import AcceptanceRecord
from truedraft.measure.sources.group import Group, stated_json
from truedraft.measure.sources.observation import SCOPES, Item, Notice, Observation, Scope
from truedraft.measure.sources.pool import Pool
from truedraft.measure.sources.pooled import Pooled
from truedraft.measure.sources.records import record_of

MOST_OF_A_KIND = 5
"""Warnings of one kind that are printed one by one."""

NOTHING = "the sources are of several kinds that must not be added up; `groups` has the figures of each"

Key = tuple[str, Scope, str, str]
"""Definition, scope, population, source."""


@dataclass
class Summary:
    """Takes the items of all sources; then `settle`, then read."""

    groups: dict[Key, Group] = field(default_factory=dict)
    contradictory: list[Observation] = field(default_factory=list)
    _kinds: Counter[str] = field(default_factory=Counter)
    _warnings: list[str] = field(default_factory=list)
    keep_records: bool = False

    def take(self, items: Iterable[Item]) -> int:
        """Sort the items in; returns how many observations there were."""
        count = 0
        for item in items:
            if isinstance(item, Notice):
                self.warn(item)
                continue
            count += 1
            if item.contradiction:
                self.contradictory.append(item) if len(self.contradictory) < MOST_OF_A_KIND else None
                self.warn(Notice(item.where, "contradiction", f"{item.contradiction}: shown, not pooled"))
            else:
                self._add(item)
        return count

    def _add(self, seen: Observation) -> None:
        key: Key = (seen.definition, seen.scope, seen.population, seen.source)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(
                seen.definition, seen.scope, seen.population, seen.source, Pool(seen.definition)
            )
        if seen.scope == "lifetime":
            group.series[seen.series] = seen
        else:
            self._pool(group, seen)

    def _pool(self, group: Group, seen: Observation) -> None:
        group.pool.add(seen)
        if len(group.stated) < MOST_OF_A_KIND:
            group.stated += [(seen.where, figure) for figure in seen.stated]
        if self.keep_records and (record := record_of(seen)) is not None:
            group.records.append(record)

    def settle(self) -> None:
        """Call once, after the last item."""
        for group in self.groups.values():
            for seen in group.series.values():
                self._pool(group, seen)
            group.series = {}
            pool, name = group.pool, f"{group.source} ({group.scope})"
            if pool.left_out and pool.left_out < pool.observations:
                self.warn(
                    Notice(
                        name,
                        "rounds",
                        f"{pool.left_out} of {pool.observations} do not tell their rounds: left out of tau",
                    )
                )
            if len(pool.widths) > 1:
                self.warn(
                    Notice(
                        name,
                        "K",
                        f"K differs ({', '.join(map(str, sorted(pool.widths)))}): rates are not comparable",
                    )
                )
        if len(self.chosen) > 1:
            names = ", ".join(f"{g.source} {g.population}".strip() for g in self.chosen)
            self.warn(Notice("", "kinds", f"{names}: not added up; each has its own figures"))
        others = [g for g in self.groups.values() if g not in self.chosen and g.pool.informative]
        if others:
            names = ", ".join(f"{g.source} ({g.scope})" for g in others)
            self.warn(
                Notice("", "kinds", f"{names}: kept apart, may cover the same rounds or mean something else")
            )

    @property
    def chosen(self) -> list[Group]:
        """The groups of the best scope that says anything about τ; one of them is `acceptance`."""
        found = list(self.groups.values())
        for groups in ([g for g in found if g.pool.informative], found):
            for scope in SCOPES:
                same = [group for group in groups if group.scope == scope]
                if same:
                    return same
        return []

    @property
    def acceptance(self) -> Pooled:
        """The pooled figures, if there is one kind of them; else figures of nothing."""
        chosen = self.chosen
        if len(chosen) == 1:
            return chosen[0].pool.pooled()
        return Pooled(NOTHING if chosen else "nothing", "none", None, None, None, None, None, None, (), ())

    @property
    def records(self) -> list[AcceptanceRecord]:
        """Records of `acceptance`'s groups; those of other groups may cover the same rounds."""
        return [record for group in self.chosen for record in group.records]

    def warn_of_missing_records(self) -> None:
        """Say so if records cover less than the figures: comparing them compares something else."""
        statements, records = sum(group.pool.observations for group in self.chosen), len(self.records)
        if records < statements:
            text = (
                f"records for {records} of {statements} statements: of the others it is not known what every "
                "round proposed and accepted"
            )
            self.warn(Notice("", "no record", text))

    def warn(self, notice: Notice) -> None:
        """Keep a warning; of many of a kind the first few and their number."""
        self._kinds[notice.kind] += 1
        if self._kinds[notice.kind] <= MOST_OF_A_KIND:
            self._warnings.append(f"{notice.where}: {notice.text}" if notice.where else notice.text)

    @property
    def warnings(self) -> list[str]:
        """All warnings, one line each."""
        return [*self._warnings, *self._more()]

    def _more(self) -> Iterator[str]:
        for kind, count in self._kinds.items():
            if count > MOST_OF_A_KIND:
                yield f"{count - MOST_OF_A_KIND} more warnings of this kind: {kind}"

    def to_json(self) -> dict[str, Any]:
        """The object of `truedraft measure --json`."""
        return {
            "schema": 1,
            "acceptance": self.acceptance.to_json(),
            "groups": [group.to_json() for group in self.groups.values()],
            "contradictory": [
                {
                    "where": seen.where,
                    "why": seen.contradiction,
                    "stated": [stated_json(seen.where, f) for f in seen.stated],
                }
                for seen in self.contradictory
            ],
            "records": len(self.records),
            "warnings": self.warnings,
        }
