"""Static checks: each broken convention a finding with a code, a source and a fix. Needs no torch."""

from truedraft.checks._finding import SCHEMA, SEVERITIES, Finding, Severity
from truedraft.checks._manual import markdown_index, markdown_page
from truedraft.checks._rule import SECTIONS, Rule, all_rules, find_rule
from truedraft.checks._run import Report, run_checks
from truedraft.checks._subject import Subject, Usage

__all__ = [
    "SCHEMA",
    "SECTIONS",
    "SEVERITIES",
    "Finding",
    "Report",
    "Rule",
    "Severity",
    "Subject",
    "Usage",
    "all_rules",
    "find_rule",
    "markdown_index",
    "markdown_page",
    "run_checks",
]
