"""Counters of vLLM and llama.cpp, and gauges of SGLang, from `/metrics`.

Names: vllm/v1/spec_decode/metrics.py (`vllm:spec_decode_num_…`, registered without `_total`), llama.cpp's
server (`llamacpp:spec_decode_num_…`, older builds label `pos`), sglang's observability/metrics_collector.py.
Counters run since the server's start. Of two scrapes only the difference counts; a counter that fell, or a
process that started anew, has lost the time between: nothing is subtracted then, and it is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from truedraft.measure.sources.agree import settled
from truedraft.measure.sources.definitions import LENGTH, RATE_SGLANG, TAU_GAUGE
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation
from truedraft.measure.sources.prometheus_text import MARKER as MARKER
from truedraft.measure.sources.prometheus_text import Labels, Scrape, parse_sample, whole
from truedraft.measure.sources.sglang_log import RateMeaning

NAME = "prometheus"
GAUGES = "sglang-gauges"

_COUNTERS = ("drafts", "draft_tokens", "accepted_tokens")
_PREFIXES = {"vllm:spec_decode_num_": "vllm", "llamacpp:spec_decode_num_": "llama.cpp"}
_GAUGES = {"sglang:spec_accept_length": "length", "sglang:spec_accept_rate": "rate"}
_START = "process_start_time_seconds"


@dataclass
class Series:
    """The counters of one engine: everything that has the same labels but the position's."""

    engine: str
    labels: Labels
    counts: dict[str, int] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    created: float | None = None

    @property
    def population(self) -> str:
        """The model; engines of one model are added up, models are not."""
        return dict(self.labels).get("model_name", "")

    @property
    def name(self) -> str:
        """The labels in one line."""
        return ",".join(f"{key}={value}" for key, value in self.labels) or self.engine


@dataclass
class Reader:
    """Feed it the lines of a scrape; `where`: the file. `before`: an earlier scrape's series."""

    where: str
    before: dict[tuple[str, Labels], Series] | None = None
    scrapes: list[Scrape] = field(default_factory=list)
    _notices: list[Notice] = field(default_factory=list)
    _last: tuple[int, str] = (0, "")

    def feed(self, number: int, line: str) -> Iterator[Item]:
        """Keeps the samples; they are judged together, at the end."""
        if line.startswith("#"):
            return iter(())
        sample = parse_sample(line)
        if sample is None or sample[2] != sample[2]:
            self._notices.append(
                Notice(f"{self.where}:{number}", "partial", "a sample is cut or no number: not used")
            )
            return iter(())
        name, labels, value = sample
        if not self.scrapes or (name, labels) in self.scrapes[-1].values:
            self.scrapes = [*self.scrapes[-1:], Scrape(number)]
        self.scrapes[-1].values[name, labels] = value
        return iter(())

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
        yield from _gauges(scrape, where)

    def series(self) -> dict[tuple[str, Labels], Series]:
        """The counters of the scrape that counts, to be subtracted from a later one."""
        found = self._chosen()
        return {} if found is None or isinstance(found[1], Notice) else found[1]

    def _chosen(self) -> tuple[Scrape, dict[tuple[str, Labels], Series] | Notice] | None:
        """The last scrape that has all its counters, of the last two."""
        if not self.scrapes:
            return None
        if len(self.scrapes) > 1:
            last, earlier = _collect(self.scrapes[-1]), _collect(self.scrapes[-2])
            cut = any(key not in last or not _complete(last[key], s) for key, s in earlier.items())
            chosen = self.scrapes[-2] if cut else self.scrapes[-1]
            what = "the last is cut, the one before it is used" if cut else "the last is used"
            self._notices.append(
                Notice(
                    f"{self.where}:{chosen.number}",
                    "scrapes",
                    f"several scrapes in one file: {what}; --before takes the first, for the time between",
                )
            )
            return chosen, earlier if cut else last
        return self.scrapes[0], _collect(self.scrapes[0])


def _complete(now: Series, earlier: Series) -> bool:
    return set(now.counts) >= set(earlier.counts) and set(now.positions) >= set(earlier.positions)


def _collect(scrape: Scrape) -> dict[tuple[str, Labels], Series]:
    """The series of a scrape, by engine and labels."""
    found: dict[tuple[str, Labels], Series] = {}
    start = next((value for (name, _), value in scrape.values.items() if name == _START), None)
    for (name, labels), value in scrape.values.items():
        prefix = next((p for p in _PREFIXES if name.startswith(p)), None)
        if prefix is None:
            continue
        what, rest = name.removeprefix(prefix), dict(labels)
        position = rest.pop("position", rest.pop("pos", None))
        key = (_PREFIXES[prefix], tuple(sorted(rest.items())))
        series = found.setdefault(key, Series(*key, created=start))
        count = whole(value)
        if what == "drafts_created":
            series.created = value
        elif count is None:
            series.counts["invalid"] = 1
        elif what in _COUNTERS:
            series.counts[what] = count
        elif what == "accepted_tokens_per_pos" and position is not None and position.isdecimal():
            series.positions[int(position)] = count
    return found


def _engine(
    now: Series, where: str, before: dict[tuple[str, Labels], Series] | None, key: tuple[str, Labels]
) -> Iterator[Item]:
    missing = [name for name in _COUNTERS if name not in now.counts]
    if missing or "invalid" in now.counts:
        what = f"counters {', '.join(missing)} are missing" if missing else "a counter is no whole number"
        yield Notice(where, "partial", f"{now.name}: {what}: this engine is not used")
        return
    scope: str = "lifetime"
    if before is not None:
        earlier = before.get(key)
        fell = "" if earlier is None else _reset(earlier, now)
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
            now, scope = _minus(now, earlier), "difference"
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


def _reset(before: Series, now: Series) -> str:
    if before.created is not None and now.created is not None and now.created > before.created:
        return "the process started anew"
    for name, count in before.counts.items():
        if now.counts.get(name, 0) < count:
            return f"{name} fell from {count} to {now.counts.get(name, 0)}"
    for position, count in before.positions.items():
        if now.positions.get(position, count) < count:
            return f"accepted drafts at position {position} fell from {count} to {now.positions[position]}"
    return ""


def _minus(now: Series, before: Series | None) -> Series:
    if before is None:
        return now
    counts = {name: count - before.counts.get(name, 0) for name, count in now.counts.items()}
    positions = {i: count - before.positions.get(i, 0) for i, count in now.positions.items()}
    return replace(now, counts=counts, positions=positions)


def _gauges(scrape: Scrape, where: str) -> Iterator[Item]:
    found: dict[Labels, dict[str, float]] = {}
    for (name, labels), value in scrape.values.items():
        if name in _GAUGES:
            found.setdefault(labels, {})[_GAUGES[name]] = value
    for labels, values in sorted(found.items()):
        if "length" not in values or values["length"] == 0:  # 0: no round yet
            continue
        length = Figure("spec_accept_length", values["length"], 0.0, LENGTH)
        stated = [length]
        if "rate" in values:
            meaning = RateMeaning()
            rate = Figure("spec_accept_rate", values["rate"], 0.0, RATE_SGLANG)
            meaning.add(length, rate)
            stated.append(replace(rate, definition=meaning.definition()))
            yield Notice(where, "rate", meaning.text())
        yield Observation(
            source=GAUGES,
            where=where,
            scope="interval",
            population=dict(labels).get("model_name", ""),
            series=",".join(f"{key}={value}" for key, value in labels),
            definition=TAU_GAUGE,
            length=length,
            stated=tuple(stated),
            engine="sglang",
        )
