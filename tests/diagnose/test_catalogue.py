"""The catalogue names only what exists, and everything that should be there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from truedraft.checks import all_rules
from truedraft.contract import AXES
from truedraft.diagnose import catalogue
from truedraft.diagnose import catalogue as load

ROOT = Path(__file__).parents[2]
KNOWN = load()


@pytest.mark.parametrize("cause", KNOWN.causes.values(), ids=lambda cause: cause.name)
def test_names_of_a_cause_exist(cause) -> None:
    codes = {rule.code for rule in all_rules()}
    assert set(cause.codes) <= codes
    assert set(cause.axes) <= set(AXES)
    for question in KNOWN.questions.values():
        table = KNOWN.likelihood(cause, question)
        assert set(table) == set(question.values)
        assert sum(table.values()) == pytest.approx(1)
        assert min(table.values()) > 0


def test_every_check_can_name_a_cause() -> None:
    named = {code for cause in KNOWN.causes.values() for code in cause.codes}
    axes = {axis for cause in KNOWN.causes.values() for axis in cause.axes}
    assert axes <= set(AXES)
    missing = {rule.code for rule in all_rules()} - named - {"TD309"}
    assert not missing, f"no cause in catalogue.toml lists {sorted(missing)}"


def test_every_measured_fault_is_a_sign_of_a_cause() -> None:
    import tomllib

    folder = ROOT / "src" / "truedraft" / "diagnose"
    text = (folder / "catalogue.toml").read_text(encoding="utf-8")
    injected = {f for entry in tomllib.loads(text)["causes"].values() for f in entry.get("injected", ())}
    measured = {e["fault"] for e in json.loads((folder / "injected.json").read_text())["entries"]} - {""}
    # "block three tokens shorter" changes no acceptance of the slots that are left.
    assert injected == measured - {"block three tokens shorter"}
    pairs = {e["pair"] for e in json.loads((folder / "injected.json").read_text())["entries"]}
    assert len(pairs) == 7


def test_cases_are_of_the_field_log() -> None:
    listed = {case for cause in KNOWN.causes.values() for case in (*cause.cases, *cause.suspected) if case}
    assert all(re.fullmatch(r"[FS]\d\d", case) for case in listed)
    assert {f"F{i:02}" for i in range(1, 31)} <= listed


def test_left_out_reports_count_for_nothing() -> None:
    plain, without = catalogue(), catalogue(frozenset({"F04"}))
    assert without.causes["fusion-norm"].weight == plain.causes["fusion-norm"].weight - 1
    assert without.causes["fusion-norm"].curve != plain.causes["fusion-norm"].curve
