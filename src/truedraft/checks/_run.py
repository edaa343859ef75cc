"""Runs the rules over a subject and keeps what the user wants to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from truedraft.checks._finding import SEVERITIES, Finding, Severity
from truedraft.checks._rule import Rule, all_rules
from truedraft.checks._subject import Subject
from truedraft.contract import InputError, UnsupportedError


@dataclass(frozen=True)
class Report:
    """Findings, gravest first; `undecided` says why the pair's contract could not be checked at all."""

    findings: tuple[Finding, ...]
    undecided: str = ""

    def count(self, severity: Severity) -> int:
        """How many findings there are of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def reaches(self, severity: Severity) -> bool:
        """Whether a finding is as grave as `severity`, or graver."""
        worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in worst for finding in self.findings)


def run_checks(
    subject: Subject,
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    pedantic: bool = False,
) -> Report:
    """Run the rules; `select` and `ignore` are codes, their beginnings (`TD2`) or names, also with commas.

    Notes are left out unless `pedantic`, their code is selected in full, or they answer a question. Raises
    `InputError` for a selection that no rule has.
    """
    chosen, left = _codes(select), _codes(ignore)
    for prefix in (*chosen, *left):
        if not any(rule.code.startswith(prefix) for rule in all_rules()) or not prefix:
            raise InputError(f"no rule begins with {prefix!r:.40}, `truedraft explain` lists all")
    findings = [
        finding
        for rule in all_rules()
        if _wanted(rule, chosen, left)
        for finding in rule.check(subject)
        if pedantic or finding.severity != "note" or rule.code in chosen or rule.asked
    ]
    findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), finding.code))
    refusal = subject.pair.refusal
    undecided = str(refusal) if isinstance(refusal, UnsupportedError) else ""
    return Report(tuple(dict.fromkeys(findings)), undecided)


def _codes(texts: Iterable[str]) -> tuple[str, ...]:
    """Codes and beginnings of codes; names become codes."""
    names = {rule.name: rule.code for rule in all_rules()}
    words = [word.strip() for text in texts for word in text.split(",")]
    return tuple(names.get(word.lower(), word.upper()) for word in words)


def _wanted(rule: Rule, chosen: tuple[str, ...], left: tuple[str, ...]) -> bool:
    return (not chosen or rule.code.startswith(chosen)) and not (left and rule.code.startswith(left))
