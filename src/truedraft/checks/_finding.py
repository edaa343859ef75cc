"""A finding: one convention that is, or will be, broken, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from truedraft.contract import Value, to_json

Severity: TypeAlias = Literal["error", "warning", "note"]
Confidence: TypeAlias = Literal["certain", "likely", "possible"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Gravest first. `note`: legal but unusual, printed with `--pedantic` only."""

SCHEMA = 1


@dataclass(frozen=True)
class Finding:
    """What a rule found.

    `message`: one sentence. `axis`: the axis of the contract that it is about, or `None`. `where`: file and
    key or tensor. `found`, `expected`: values in words, or values of the axis. `fix`: flag or edit.
    `references`: issues, pull requests, files of the public record.
    """

    code: str
    severity: Severity
    confidence: Confidence
    message: str
    where: str
    axis: str | None = None
    found: Value = None
    expected: Value = None
    fix: str = ""
    references: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One entry of `findings` in `truedraft check --json`."""
        return {
            "code": self.code,
            "severity": self.severity,
            "confidence": self.confidence,
            "axis": self.axis,
            "message": self.message,
            "found": to_json(self.found),
            "expected": to_json(self.expected),
            "where": self.where,
            "fix": self.fix,
            "references": list(self.references),
        }
