"""Audit of a vLLM release: its own functions, called on synthetic pairs, against truedraft's contracts."""

from truedraft.engines.vllm.audit.audit import RUNNERS, SCHEMA, TESTED, Audit, audit, outcome
from truedraft.engines.vllm.audit.probes import PROBES, Probe
from truedraft.engines.vllm.audit.report import lines
from truedraft.engines.vllm.audit.source import Source, open_installed, open_wheel

__all__ = [
    "PROBES",
    "RUNNERS",
    "SCHEMA",
    "TESTED",
    "Audit",
    "Probe",
    "Source",
    "audit",
    "lines",
    "open_installed",
    "open_wheel",
    "outcome",
]
