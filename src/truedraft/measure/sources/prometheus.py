"""Counters of vLLM and llama.cpp, and gauges of SGLang, from `/metrics`.

Names: vllm/v1/spec_decode/metrics.py (`vllm:spec_decode_num_…`, registered without `_total`), llama.cpp's
server (`llamacpp:spec_decode_num_…`, older builds label `pos`), sglang's observability/metrics_collector.py.
Counters run since the server's start. Of two scrapes only the difference counts; a counter that fell, or a
process that started anew, has lost the time between: nothing is subtracted then, and it is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.counters import COUNTERS, Series, collect, complete, minus, reset
from truedraft.measure.sources.observation import Item, Notice, Observation
from truedraft.measure.sources.prometheus_text import MARKER as MARKER
from truedraft.measure.sources.prometheus_text import Labels, Scrape, parse_sample
from truedraft.measure.sources.sglang_gauges import read_gauges

NAME = "prometheus"


def whole_of_one(scrape: Scrape, cut: Scrape) -> bool:
    """Whether `scrape` holds one whole scrape, seen from a later one that is `cut`: both begin alike.

    A scrape that lost lines goes on into the next one, and then has samples of both.
    """
    mine, theirs = ([key for key in s.values if "spec_decode_num_" in key[0]] for s in (scrape, cut))
    return bool(mine) and mine[0][0].endswith("_num_drafts") and mine[: len(theirs)] == theirs


@dataclass
class Reader:
    """Feed it the lines of a scrape; `where`: the file. `before`: an earlier scrape's series."""

    where: str
    before: dict[tuple[str, Labels], Series] | None = None
    scrapes: list[Scrape] = field(default_factory=list)
    _notices: list[Notice] = field(default_factory=list)
    _decimals: dict[str, bool] = field(default_factory=dict)

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """Keeps the samples; they are judged together, at the end."""
        if line.startswith("#"):
            return iter(())
        sample = parse_sample(line)
        if sample is None or not self._is_number(sample[0], line, sample[2]):
            self._notices.append(
                Notice(f"{self.where}:{number}", "partial", "a sample is cut or no number: not used")
            )
            return iter(())
        name, labels, value = sample
        if not self.scrapes or (name, labels) in self.scrapes[-1].values:
            self.scrapes = [*self.scrapes[-1:], Scrape(number)]
        self.scrapes[-1].values[name, labels] = value
        return iter(())

    def _is_number(self, name: str, line: str, value: float) -> bool:
        """Finite, and written as the exporter writes: one that ends numbers with `.0` has no other ends."""
        decimals = self._decimals.setdefault(name.partition(":")[0], "." in line.rpartition("}")[2])
        return math.isfinite(value) and (not decimals or any(c in line.rpartition("}")[2] for c in ".eE"))

    @property
    def pending(self) -> bool:
        """Whether there are samples, whose numbers end with their lines only."""
        return bool(self.scrapes)

    def finish(self) -> Iterator[Item]:
        """One observation per engine."""
        found, self.scrapes = self._chosen(), []
        yield from self._notices
        self._notices = []
        if found is None:
            return
        scrape, series = found
        where = f"{self.where}:{scrape.number}"
        if isinstance(series, Notice):
            yield series
            return
        for key, now in sorted(series.items()):
            yield from _engine(now, where, self.before, key)
        yield from read_gauges(scrape, where)

    def series(self) -> dict[tuple[str, Labels], Series]:
        """The counters of the scrape that counts, to be subtracted from a later one."""
        found = self._chosen()
        return {} if found is None or isinstance(found[1], Notice) else found[1]

    def _chosen(self) -> tuple[Scrape, dict[tuple[str, Labels], Series] | Notice] | None:
        """The last scrape that has all its counters, of the last two."""
        if not self.scrapes:
            return None
        if len(self.scrapes) > 1:
            last, earlier = collect(self.scrapes[-1]), collect(self.scrapes[-2])
            cut = any(key not in last or not complete(last[key], s) for key, s in earlier.items())
            chosen = self.scrapes[-2] if cut else self.scrapes[-1]
            if cut and not whole_of_one(self.scrapes[-2], self.scrapes[-1]):
                text = "several scrapes in one file, and lines are missing: which belong together is unknown"
                return chosen, Notice(f"{self.where}:{chosen.number}", "scrapes", text)
            what = "the last is cut, the one before it is used" if cut else "the last is used"
            self._notices.append(
                Notice(
                    f"{self.where}:{chosen.number}",
                    "scrapes",
                    f"several scrapes in one file: {what}; --before takes the first, for the time between",
                )
            )
            return chosen, earlier if cut else last
        return self.scrapes[0], collect(self.scrapes[0])


def _engine(
    now: Series, where: str, before: dict[tuple[str, Labels], Series] | None, key: tuple[str, Labels]
) -> Iterator[Item]:
    missing = [name for name in COUNTERS if name not in now.counts]
    if missing or "invalid" in now.counts:
        what = f"counters {', '.join(missing)} are missing" if missing else "a counter is no whole number"
        yield Notice(where, "partial", f"{now.name}: {what}: this engine is not used")
        return
    scope: str = "lifetime"
    if before is not None:
        earlier = before.get(key)
        fell = "" if earlier is None else reset(earlier, now)
        if fell:
            yield Notice(
                where,
                "reset",
                f"{now.name}: {fell}: counters were reset after --before; "
                "the figures are those since the reset, what came before it is lost",
            )
        else:
            if earlier is None:
                yield Notice(where, "new", f"{now.name} is not in --before: its counters are taken from 0")
            now, scope = minus(now, earlier), "difference"
    width = len(now.positions)
    if width and sorted(now.positions) != list(range(width)):
        yield Notice(
            where, "partial", f"{now.name}: a position is missing: per-position figures are not used"
        )
        now, width = replace(now, positions={}), 0
    yield settled(
        Observation(
            source=NAME,
            where=where,
            scope="difference" if scope == "difference" else "lifetime",
            population=now.population,
            series=now.name,
            rounds=now.counts["drafts"],
            proposed=now.counts["draft_tokens"],
            accepted=now.counts["accepted_tokens"],
            reached=tuple(now.positions[i] for i in range(width)),
            width=width or None,
            engine=now.engine,
        )
    )
