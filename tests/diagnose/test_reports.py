"""Public reports, diagnosed from what their reporters knew; docs/diagnose.md has the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reports import FILES, Told, entries, report_table, told, truth_of

from truedraft.diagnose import catalogue, diagnose
from truedraft.diagnose.figures import of_facts

PAGE = Path(__file__).parents[2] / "docs" / "diagnose.md"
FOUNDING = [f"F{i:02}" for i in range(1, 31)]

OPEN = {
    "F03": "a dead drafter while another one works: ten causes do that, and the engine's code was not known",
    "F07": "a length, and ranks that log different decisions; it turned out that those did not matter",
    "F10": "no figure and no observation",
    "F16": "a trainer's metric without a figure beside it",
    "F21": "the author did not compare the output, which is asked first",
    "F28": "a low length and nothing else; the flag was not looked at",
}
"""Founding cases that what the reporter had does not decide, and why."""


@pytest.mark.parametrize("name", FOUNDING)
def test_founding_cases(name: str, tmp_path: Path) -> None:
    """Each with its own report left out of the priors and curves."""
    case = told(name, tmp_path, without=True)
    assert case.worst_wrong[1] <= 0.5, f"{name}: {case.worst_wrong}"
    if case.result.leader is not None:
        assert {cause.name for cause in case.result.leader.causes} & case.truth
    if name not in OPEN:
        assert case.rank is not None, case.ranking[:5]
        assert case.rank <= 3, case.ranking[:5]


@pytest.mark.parametrize("name", [n for n in entries() if n[0] == "S"])
def test_other_reports_accuse_nobody_wrongly(name: str) -> None:
    case = told(name, without=True)
    if case.truth:
        assert case.worst_wrong[1] <= 0.5, f"{name}: {case.worst_wrong}"


def test_other_reports_with_something_to_go_by() -> None:
    """Of reports with a known cause and a fact that is more than a size, most have it in the first three."""
    found = []
    for name, entry in entries().items():
        facts: list[str] = entry["facts"]  # type: ignore[assignment]
        telling = [fact for fact in facts if fact.split("=")[0] not in ("loss", "prompts")]
        if name[0] == "S" and truth_of(name) and (telling or entry["survival"] or entry["log"]):
            found.append((name, told(name, without=True).rank))
    hits = [name for name, rank in found if rank is not None and rank <= 3]
    assert len(found) >= 15
    assert len(hits) >= 0.7 * len(found), (len(hits), found)


def test_losslessness_is_asked_where_nobody_compared(tmp_path: Path) -> None:
    for name in FOUNDING:
        case = told(name, tmp_path / name)
        if not any(fact.startswith("text=") for fact in case.case.facts):
            assert case.result.output == "not compared"


@pytest.mark.parametrize("name", ["F03", "F16", "F21", "F28"])
def test_the_next_experiments_would_find_the_open_cases(name: str) -> None:
    """Answered as the true cause would answer, the proposed experiments put it in the first three."""
    known = catalogue()
    case, (truth, *_) = told(name).case, sorted(truth_of(name))
    facts: list[str] = []
    for _ in range(8):
        evidence = [*case.evidence(known), *of_facts(known, facts)]
        result = diagnose(known, evidence, files=True, engine=True)
        rank = Told(name, case, frozenset([truth]), result).rank
        question = next((e.name for e in result.experiments if e.name in known.questions), None)
        if rank is not None and rank <= 3 and facts:
            return
        assert question is not None, facts
        table = known.likelihood(known.causes[truth], known.questions[question])
        facts.append(f"{question}={max(table, key=lambda answer: table[answer])}")
    pytest.fail(f"{name}: {facts}")


def test_page_has_the_table_that_the_code_gives(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(r"<!-- reports -->\n(.*?)\n<!-- /reports -->", page, re.DOTALL)
    assert found is not None
    assert found[1] == report_table(tmp_path), "run scripts/write-diagnose-page"


def test_files_are_of_cases_that_exist() -> None:
    assert set(FILES) <= set(FOUNDING)
    assert set(OPEN) <= set(FOUNDING)
