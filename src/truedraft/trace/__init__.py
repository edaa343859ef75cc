"""Traces of a live engine's drafter (`formats/trace_schema.py`), and where they leave the contract."""

from truedraft.trace._diff import TraceDiff, diff_trace
from truedraft.trace.file import About, Trace
from truedraft.trace.stage import Outcome, Tried

__all__ = ["About", "Outcome", "Trace", "TraceDiff", "Tried", "diff_trace"]
