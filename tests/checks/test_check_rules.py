"""Every rule: a broken pair is told, its healthy sibling is not; manual pages have all their sections."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from case import Case, found, told

from truedraft.checks import SECTIONS, all_rules, find_rule

CASE_FILES = sorted(file.stem for file in Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [case for name in CASE_FILES for case in import_module(name).CASES]


def label(case: Case) -> str:
    return f"{case.code}-{case.name}" if case.name else case.code


@pytest.mark.parametrize("case", CASES, ids=label)
def test_broken_is_told_and_healthy_is_not(case: Case, tmp_path: Path) -> None:
    broken = found(case.broken(tmp_path / "broken"), case.code)
    assert broken, f"{case.code} says nothing about the broken pair"
    assert case.severity in {finding.severity for finding in broken}
    for words in case.says:
        assert words in told(broken)
    assert found(case.healthy(tmp_path / "healthy"), case.code) == []


def test_every_rule_has_a_case() -> None:
    assert {case.code for case in CASES} == {rule.code for rule in all_rules()}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_manual_page(rule) -> None:
    lines = rule.manual.split("\n")
    headings = [line for line in lines if line in SECTIONS]
    assert headings == list(SECTIONS)
    assert lines[0].endswith(".")
    assert len(lines[0]) <= 110
    for heading in SECTIONS:
        first = lines[lines.index(heading) + 1]
        assert first.startswith("    ")
        assert first.strip()[0] not in ",.;:)"
    assert find_rule(rule.name) is rule


def test_codes_and_names_are_distinct() -> None:
    rules = all_rules()
    assert len({rule.code for rule in rules}) == len({rule.name for rule in rules}) == len(rules)
