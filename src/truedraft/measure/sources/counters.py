"""The counters of one engine out of a scrape: collected, compared, subtracted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from truedraft.measure.sources.prometheus_text import Labels, Scrape, whole

COUNTERS = ("drafts", "draft_tokens", "accepted_tokens")

_PREFIXES = {"vllm:spec_decode_num_": "vllm", "llamacpp:spec_decode_num_": "llama.cpp"}
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


def complete(now: Series, earlier: Series) -> bool:
    """Whether `now` has everything that an earlier scrape had."""
    return set(now.counts) >= set(earlier.counts) and set(now.positions) >= set(earlier.positions)


def collect(scrape: Scrape) -> dict[tuple[str, Labels], Series]:
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
        elif what.endswith("_created"):
            continue  # when each counter began, seconds with a fraction
        elif count is None:
            series.counts["invalid"] = 1
        elif what in COUNTERS:
            series.counts[what] = count
        elif what == "accepted_tokens_per_pos" and position is not None and position.isdecimal():
            series.positions[int(position)] = count
    return found


def reset(before: Series, now: Series) -> str:
    """How it shows that the counters began anew in between; nothing if they did not."""
    if before.created is not None and now.created is not None and now.created > before.created:
        return "the process started anew"
    for name, count in before.counts.items():
        if now.counts.get(name, 0) < count:
            return f"{name} fell from {count} to {now.counts.get(name, 0)}"
    for position, count in before.positions.items():
        if now.positions.get(position, count) < count:
            return f"accepted drafts at position {position} fell from {count} to {now.positions[position]}"
    return ""


def minus(now: Series, before: Series | None) -> Series:
    """What was counted in between."""
    if before is None:
        return now
    counts = {name: count - before.counts.get(name, 0) for name, count in now.counts.items()}
    positions = {i: count - before.positions.get(i, 0) for i, count in now.positions.items()}
    return replace(now, counts=counts, positions=positions)
