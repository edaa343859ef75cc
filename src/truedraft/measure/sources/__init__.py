"""Acceptance figures of other programs: logs, counters, benchmark tables, responses. Needs no torch.

One parser per module. A parser makes `Observation`s, which keep counts apart from rounded figures, and
`Notice`s of whatever it could not use; `Summary` pools what means the same. All formats: `docs/measure.md`.
"""

from truedraft.measure.sources.group import Group
from truedraft.measure.sources.json_source import JsonSource, is_json
from truedraft.measure.sources.observation import Figure, Item, Notice, Observation, Request
from truedraft.measure.sources.pooled import Pooled
from truedraft.measure.sources.read import SOURCES, read_source, scrape_before
from truedraft.measure.sources.records import record_of
from truedraft.measure.sources.summary import Summary

__all__ = [
    "SOURCES",
    "Figure",
    "Group",
    "Item",
    "JsonSource",
    "Notice",
    "Observation",
    "Pooled",
    "Request",
    "Summary",
    "is_json",
    "read_source",
    "record_of",
    "scrape_before",
]
