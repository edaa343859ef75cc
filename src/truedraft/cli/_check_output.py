"""Findings as text, JSON, SARIF and GitHub annotations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from truedraft.checks import SCHEMA, SEVERITIES, Finding, Report
from truedraft.cli._check_sarif import sarif_log
from truedraft.cli._style import Style
from truedraft.contract import format_value

Layout = Callable[[Report, Style, bool], Iterator[str]]


def _text(report: Report, style: Style, quiet: bool) -> Iterator[str]:
    for finding in report.findings:
        axis = f" {finding.axis}" if finding.axis else ""
        head = f"{finding.severity} {finding.code}{axis}: {printable(finding.message)}"
        yield style.warn(head) if finding.severity != "note" else head
        if not quiet:
            yield from _details(finding)
    counts = ", ".join(f"{n} {s}{'s' * (n > 1)}" for s in SEVERITIES if (n := report.count(s)))
    if report.undecided:
        yield style.warn("not checked: ") + printable(report.undecided)
    elif not counts:
        yield "nothing found"
    if counts:
        yield style.bold(counts) + "; `truedraft explain CODE` has the manual page of each"


def _details(finding: Finding) -> Iterator[str]:
    rows = (
        ("where", finding.where),
        ("found", format_value(finding.found) if finding.found is not None else ""),
        ("expected", format_value(finding.expected) if finding.expected is not None else ""),
        ("fix", finding.fix),
        ("see", ", ".join(finding.references)),
    )
    for name, value in rows:
        if value:
            yield f"  {name.ljust(8)}  {printable(value)}"


def printable(text: str) -> str:
    """Text from files that nobody vouches for, on one line and without control characters."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _json(report: Report, style: Style, quiet: bool) -> Iterator[str]:
    out = {
        "schema": SCHEMA,
        "findings": [finding.to_json() for finding in report.findings],
        "counts": {severity: report.count(severity) for severity in SEVERITIES},
        "undecided": report.undecided or None,
    }
    yield json.dumps(out, indent=2, ensure_ascii=False, allow_nan=False)


def _sarif(report: Report, style: Style, quiet: bool) -> Iterator[str]:
    yield json.dumps(sarif_log(report), indent=2, ensure_ascii=False, allow_nan=False)


_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def _github(report: Report, style: Style, quiet: bool) -> Iterator[str]:
    """Workflow commands (GitHub Actions documentation, "Setting an error message")."""
    for finding in report.findings:
        file = finding.where.partition("#")[0]
        title = f"{finding.code} {finding.axis or ''}".strip()
        message = finding.message + (f"\nfix: {finding.fix}" if finding.fix else "")
        properties = f"file={_escaped(file, ',:')},title={_escaped(title, ',:')}"
        yield f"::{_COMMANDS[finding.severity]} {properties}::{_escaped(message)}"
    if report.undecided:
        yield f"::warning title=not checked::{_escaped(report.undecided)}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return printable(text)


FORMATS: dict[str, Layout] = {"text": _text, "json": _json, "sarif": _sarif, "github": _github}
"""Name of `--format` -> the lines it prints."""
