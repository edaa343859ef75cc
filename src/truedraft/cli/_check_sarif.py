"""Findings as a SARIF 2.1.0 log (OASIS, "Static Analysis Results Interchange Format"), for code scanning."""

from __future__ import annotations

from typing import Any

from truedraft import __version__
from truedraft.checks import Finding, Report, all_rules
from truedraft.contract import format_value

VERSION = "2.1.0"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(report: Report) -> dict[str, Any]:
    """The log of one run. Every rule is listed; a result points to it by index."""
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
                        "shortDescription": {"text": rule.title},
                        "fullDescription": {"text": rule.manual},
                    }
                    for rule in rules
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, index[finding.code]) for finding in report.findings],
    }
    if report.undecided:
        notice = {"level": "warning", "message": {"text": report.undecided}}
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [notice]}]
    return {"$schema": _SCHEMA, "version": VERSION, "runs": [run]}


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    file, _, pointer = finding.where.partition("#")
    logical = {"fullyQualifiedName": finding.where, "kind": "member"}
    properties = {
        "confidence": finding.confidence,
        "axis": finding.axis,
        "found": format_value(finding.found),
        "expected": format_value(finding.expected),
        "fix": finding.fix,
        "references": list(finding.references),
    }
    location: dict[str, Any] = {"logicalLocations": [logical]}
    if pointer:
        location["physicalLocation"] = {"artifactLocation": {"uri": _uri(file)}}
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": finding.message + (f" Fix: {finding.fix}" if finding.fix else "")},
        "locations": [location],
        "properties": {key: value for key, value in properties.items() if value},
    }


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(file)
