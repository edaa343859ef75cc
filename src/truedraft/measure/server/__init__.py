"""Live measurement of an OpenAI-compatible server: fixed prompts, its counters before and after."""

from truedraft.measure.server.address import Address, fetch
from truedraft.measure.server.repeats import Difference, Repeats
from truedraft.measure.server.reply import Ask, Reply
from truedraft.measure.server.run import run_server
from truedraft.measure.server.settings import Pass, Settings

__all__ = [
    "Address",
    "Ask",
    "Difference",
    "Pass",
    "Repeats",
    "Reply",
    "Settings",
    "fetch",
    "run_server",
]
