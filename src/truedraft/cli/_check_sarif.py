"""Findings as a SARIF 2.1.0 log (OASIS, "Static Analysis Results Interchange Format"), for code scanning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from truedraft import __version__
from truedraft.checks import SECTIONS, Finding, Report, Rule, all_rules
from truedraft.cli._printable import printable
from truedraft.contract import format_value

VERSION = "2.1.0"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(report: Report, places: Mapping[str, str]) -> dict[str, Any]:
    """The log of one run. Every rule is listed; a result points to it by index.

    `places`: directory of target and draft relative to the repository's root, where they lie in it.
    """
    rules = all_rules()
    index = {rule.code: i for i, rule in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "truedraft",
                "version": __version__,
                "rules": [
                    {
                        "id": rule.code,
                        "name": rule.name,
                        "shortDescription": _message(rule.title),
                        "fullDescription": _message(_what_it_finds(rule)),
                        "help": {"text": _literal(rule.manual)},
                    }
                    for rule in rules
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, index[finding.code], places) for finding in report.findings],
    }
    if report.undecided:
        notice = {"level": "warning", "message": _message(report.undecided)}
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [notice]}]
    return {"$schema": _SCHEMA, "version": VERSION, "runs": [run]}


def _result(finding: Finding, rule: int, places: Mapping[str, str]) -> dict[str, Any]:
    properties = {
        "confidence": finding.confidence,
        "axis": finding.axis,
        "found": None if finding.found is None else printable(format_value(finding.found)),
        "expected": None if finding.expected is None else printable(format_value(finding.expected)),
        "fix": printable(finding.fix),
        "references": list(finding.references),
    }
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": _message(finding.message + (f" Fix: {finding.fix}" if finding.fix else "")),
        "locations": [_location(finding.where, places)],
        "properties": {key: value for key, value in properties.items() if value},
    }


def _location(where: str, places: Mapping[str, str]) -> dict[str, Any]:
    """A file and the key or tensor in it; code scanning wants a file for every result."""
    logical = {"fullyQualifiedName": printable(where), "kind": "member"}
    role, slash, file = where.partition("#")[0].partition("/")
    if not slash or role not in ("target", "draft"):
        role, file = "draft", "config.json"  # a boot log or a KV layout: what it is compared with
    uri = quote(f"{places.get(role, role)}/{file}".encode("utf-8", errors="replace"))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}}, "logicalLocations": [logical]}


def _what_it_finds(rule: Rule) -> str:
    """The first section of a manual page, as one paragraph."""
    body = rule.manual.partition(f"\n{SECTIONS[0]}\n")[2].partition(f"\n{SECTIONS[1]}\n")[0]
    return " ".join(body.split()) or rule.title


def _message(text: str) -> dict[str, str]:
    return {"text": _literal(printable(text))}


def _literal(text: str) -> str:
    """A message string without placeholders and links, whatever it holds (SARIF 2.1.0, 3.11.5, 3.11.6)."""
    return text.replace("{", "{{").replace("}", "}}").replace("](", "] (")
