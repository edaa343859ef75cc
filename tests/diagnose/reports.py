"""The public cases as their reporters knew them, and what `diagnose` makes of each.

`tests/data/reports.json` holds, per case of the field log, the facts and figures that the report states. It
was written from the reports' symptoms alone, by somebody who saw the questions of the catalogue but neither
its causes nor what the reports turned out to be. Files are added where the reporter had them and truedraft
reads that engine (`tests/checks/test_field_log.py` builds the pairs).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from test_field_log import TOLD, qwen36

from truedraft.checks import Subject, run_checks
from truedraft.diagnose import Diagnosis, catalogue, diagnose
from truedraft.diagnose.case import Case
from truedraft.diagnose.figures import Measured

DATA = Path(__file__).parents[1] / "data" / "reports.json"

FILES = {
    "F01": "TD408",
    "F02": "TD401",
    "F04": "TD202",
    "F06": "TD409",
    "F08": "TD201",
    "F11": "TD304",
    "F09": "TD207",
    "F14": "TD423",
    "F15": "TD403",
    "F17": "TD405",
    "F18": "TD425",
    "F19": "TD422",
    "F22": "TD205",
    "F23": "TD205",
    "F24": "TD305",
    "F30": "TD301",
}
"""Case -> the builder of its pair. Left out: cases whose engine is not among the readings (F03, F05, F10,
F12, F13, F16, F20, F21, F25, F27), and options that the reporter did not know to matter (F26, F28, F29)."""


@dataclass(frozen=True)
class Told:
    """One case: what was given and what came out. `truth`: the causes that the catalogue lists it under."""

    name: str
    case: Case
    truth: frozenset[str]
    result: Diagnosis

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """Causes with their own share, the likeliest first; the unknown left out."""
        found = [
            (cause.name, share)
            for group in self.result.groups
            for cause, share in zip(group.causes, group.shares, strict=True)
            if cause.kind != "unknown"
        ]
        return sorted(found, key=lambda entry: -entry[1])

    @property
    def rank(self) -> int | None:
        """Place of the first true cause, from 1; `None` if nothing speaks for it."""
        names = [name for name, _ in self.ranking]
        places = [names.index(name) + 1 for name in self.truth if name in names]
        return min(places, default=None)

    @property
    def worst_wrong(self) -> tuple[str, float]:
        """The likeliest cause that is not true, and its share."""
        wrong = [entry for entry in self.ranking if entry[0] not in self.truth]
        return wrong[0] if wrong else ("", 0.0)


def entries() -> dict[str, dict[str, object]]:
    """The reports as coded."""
    found: dict[str, dict[str, object]] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def truth_of(name: str) -> frozenset[str]:
    """Causes that list this case."""
    return frozenset(cause.name for cause in catalogue().causes.values() if name in cause.cases)


def case_of(entry: dict[str, object], subject: Subject | None = None) -> Case:
    """The case as reported, with the checks of a pair if there is one."""
    tau, survival = entry["tau"], tuple(entry["survival"])  # type: ignore[arg-type]
    if tau is None and survival:
        tau = 1 + sum(survival)
    measured = None
    if tau is not None:
        measured = Measured(float(tau), "report", entry["rounds"], survival, entry["k"])  # type: ignore[arg-type]
    expect = entry["expect"]
    return Case(
        facts=tuple(entry["facts"]),  # type: ignore[arg-type]
        findings=() if subject is None else run_checks(subject, pedantic=True).findings,
        files=subject is not None,
        engine=subject is not None and bool(subject.readings),
        measured=measured,
        expected=None if expect is None else Measured(float(expect), "report"),  # type: ignore[arg-type]
        lines=tuple(("log", line) for line in entry["log"]),  # type: ignore[attr-defined]
        where="report",
    )


def builder(name: str) -> Callable[[Path], Subject] | None:
    """How the pair of a case is built, if the reporter had one that truedraft reads."""
    if name == "F17":  # its image is younger than vllm#40727, which TOLD's release still lacks
        return lambda directory: qwen36(directory, "vllm:0.22.1:v1")
    return TOLD[name][FILES[name]] if name in FILES else None


def told(name: str, directory: Path | None = None, without: bool = False) -> Told:
    """Diagnose one case; with `without` its own reports count nothing in the priors (held out)."""
    build = builder(name)
    subject = None if build is None or directory is None else build(directory)
    case = case_of(entries()[name], subject)
    known = catalogue(frozenset({name})) if without else catalogue()
    result = diagnose(known, case.evidence(known), files=case.files, engine=case.engine)
    return Told(name, case, truth_of(name), result)


def report_table(directory: Path) -> str:
    """The table of the founding cases in docs/diagnose.md, each with its own report left out."""
    lines = [
        "| case | given | first three causes | found later | place | asked next |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted(entries()):
        if name.startswith("F"):
            case = told(name, directory / name, without=True)
            lines.append(f"| {name} | {_given(case)} | {_first(case)} | {_truth(case)} | {_next(case)} |")
    return "\n".join(lines)


def _given(case: Told) -> str:
    parts = [f"`{fact}`" for fact in case.case.facts]
    seen = case.case.measured
    if seen is not None:
        parts.append(f"τ {seen.tau:.2f}" + (" with its slots" if seen.survival else ""))
    if case.case.expected is not None:
        parts.append(f"{case.case.expected.tau:.2f} expected")
    parts += ["a log line"] if case.case.lines else []
    parts += ["files"] if case.case.files else []
    return ", ".join(parts) or "nothing usable"


def _first(case: Told) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in case.ranking[:3])


def _truth(case: Told) -> str:
    place = "–" if case.rank is None else str(case.rank)
    return f"{', '.join(sorted(case.truth))} | {place}"


def _next(case: Told) -> str:
    return case.result.experiments[0].name if case.result.experiments else ""
