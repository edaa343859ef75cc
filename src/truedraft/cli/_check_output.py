"""Findings as text, JSON, SARIF and GitHub annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from truedraft.checks import SCHEMA, SEVERITIES, Finding, Report
from truedraft.cli._check_sarif import sarif_log
from truedraft.cli._printable import dumped, printable
from truedraft.cli._style import Style
from truedraft.contract import format_value
from truedraft.formats import Inspection


@dataclass(frozen=True)
class Page:
    """What is printed, and how.

    `quiet`: one line per finding. `places`: see `places_of`. `engines`: the releases asked about.
    """

    report: Report
    style: Style
    quiet: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    engines: tuple[str, ...] = ()

    @property
    def read(self) -> str:
        """Which releases the findings are about."""
        return f", as {', '.join(self.engines)} would read the pair" if self.engines else ""


def places_of(pair: Inspection) -> dict[str, str]:
    """Role -> its directory below the working directory, for tools that link findings to files.

    Pairs that lie elsewhere have no place, and findings name `draft/config.json` as on the terminal.
    """
    try:
        here = Path.cwd()
    except OSError:  # deleted
        return {}
    out: dict[str, str] = {}
    for checkpoint in (pair.target, pair.draft):
        directory = checkpoint.directory.resolve()
        if directory.is_relative_to(here):
            out[checkpoint.role] = directory.relative_to(here).as_posix()
    return out


def _text(page: Page) -> Iterator[str]:
    style, report = page.style, page.report
    for finding in report.findings:
        axis = f" {finding.axis}" if finding.axis else ""
        head = printable(f"{finding.severity} {finding.code}{axis}: {finding.message}")
        yield style.warn(head) if finding.severity != "note" else head
        if not page.quiet:
            yield from _details(finding)
    counts = ", ".join(f"{n} {s}{'s' * (n > 1)}" for s in SEVERITIES if (n := report.count(s)))
    if report.undecided:
        yield style.warn("not checked: ") + printable(report.undecided)
    elif not counts:
        yield "nothing found" + page.read
    if counts:
        yield style.bold(counts) + page.read + "; `truedraft explain CODE` has the manual page of each"


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


def _json(page: Page) -> Iterator[str]:
    report = page.report
    yield dumped(
        {
            "schema": SCHEMA,
            "findings": [finding.to_json() for finding in report.findings],
            "counts": {severity: report.count(severity) for severity in SEVERITIES},
            "undecided": report.undecided or None,
        }
    )


def _sarif(page: Page) -> Iterator[str]:
    yield dumped(sarif_log(page.report, page.places))


_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def _github(page: Page) -> Iterator[str]:
    """Workflow commands (GitHub Actions documentation, "Setting an error message")."""
    for finding in page.report.findings:
        title = f"{finding.code} {finding.axis or ''}".strip()
        properties = f"title={_property(title)}"
        role, slash, file = finding.where.partition("#")[0].partition("/")
        if slash and role in ("target", "draft"):
            properties = f"file={_property(f'{page.places.get(role, role)}/{file}')},{properties}"
        fix = f"%0Afix: {_data(finding.fix)}" if finding.fix else ""
        yield f"::{_COMMANDS[finding.severity]} {properties}::{_data(finding.message)}{fix}"
    if page.report.undecided:
        yield f"::warning title=not checked::{_data(page.report.undecided)}"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[Page], Iterator[str]]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}
"""Name of `--format` -> the lines it prints."""
