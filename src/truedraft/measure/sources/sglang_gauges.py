"""SGLang's gauges: acceptance length and rate of the server's last interval, no counters.

Names: sglang/srt/observability/metrics_collector.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from truedraft.measure.sources.agree import no_length
from truedraft.measure.sources.definitions import LENGTH, RATE_SGLANG, TAU_GAUGE
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation
from truedraft.measure.sources.prometheus_text import Labels, Scrape
from truedraft.measure.sources.sglang_log import RateMeaning

NAME = "sglang-gauges"

_GAUGES = {"sglang:spec_accept_length": "length", "sglang:spec_accept_rate": "rate"}


def read_gauges(scrape: Scrape, where: str) -> Iterator[Item]:
    """One observation per set of labels."""
    found: dict[Labels, dict[str, float]] = {}
    for (name, labels), value in scrape.values.items():
        if name in _GAUGES:
            found.setdefault(labels, {})[_GAUGES[name]] = value
    for labels, values in sorted(found.items()):
        if "length" not in values or values["length"] == 0:  # 0: no round yet
            continue
        length = Figure("spec_accept_length", values["length"], 0.0, LENGTH)
        stated, wrong = [length], no_length(length)
        if not wrong and 0 <= values.get("rate", -1) <= 1:
            meaning = RateMeaning()
            rate = Figure("spec_accept_rate", values["rate"], 0.0, RATE_SGLANG)
            meaning.add(length, rate)
            stated.append(replace(rate, definition=meaning.definition()))
            yield Notice(where, "rate", meaning.text())
        yield Observation(
            source=NAME,
            where=where,
            scope="interval",
            population=dict(labels).get("model_name", ""),
            series=",".join(f"{key}={value}" for key, value in labels),
            definition=TAU_GAUGE,
            length=length,
            stated=tuple(stated),
            contradiction=wrong,
            engine="sglang",
        )
