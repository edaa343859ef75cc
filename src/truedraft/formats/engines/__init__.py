"""Engine readings: what one release of one engine would make of a pair's files. Needs no torch."""

from truedraft.formats.engines._boot_log import BootLine, read_boot_log
from truedraft.formats.engines._kv_layout import KvLayout, KvView, read_kv_layout, without
from truedraft.formats.engines._read import read_engine
from truedraft.formats.engines._types import Engine, EngineId, Fact, Hazard, PairFiles, Reading, Refusal
from truedraft.formats.engines.registry import ENGINES, find_engines, siblings

__all__ = [
    "ENGINES",
    "BootLine",
    "Engine",
    "EngineId",
    "Fact",
    "Hazard",
    "KvLayout",
    "KvView",
    "PairFiles",
    "Reading",
    "Refusal",
    "find_engines",
    "read_boot_log",
    "read_engine",
    "read_kv_layout",
    "siblings",
    "without",
]
