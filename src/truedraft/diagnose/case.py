"""`Case`: what somebody knows about a deployment, as `diagnose` takes it and `collect` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from truedraft.checks import SEVERITIES, Finding
from truedraft.contract import InputError
from truedraft.diagnose import figures, findings
from truedraft.diagnose.catalogue import Catalogue
from truedraft.diagnose.catalogue import catalogue as _catalogue
from truedraft.diagnose.figures import Measured
from truedraft.diagnose.infer import Evidence, answered
from truedraft.diagnose.trends import Trend


@dataclass(frozen=True)
class Case:
    """What is known; whatever is not stays empty.

    `facts`: `QUESTION=ANSWER` as stated. `findings`: of `check` on the pair, `files` whether it ran, `engine`
    whether with an engine's reading. `measured`, `expected`: figures of the deployment, and what it should
    do. `trends`: from records. `lines`: (where, text) of log lines that a sign of the catalogue matches.
    `probe`: the JSON of a probe. `contradictions`: figures of the sources that exclude each other.
    `lossless`: (identical or tied, compared) prompts of a run that compared its output. `differences`: (axis,
    how) that the deployment's contract is not the files'. `alike`: the expectation is of the same prompts at
    the same k; `contracts`: how the contracts of both differ. `own`: the figures are of truedraft's engine.
    """

    facts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    files: bool = False
    engine: bool = False
    measured: Measured | None = None
    expected: Measured | None = None
    trends: tuple[Trend, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    probe: Mapping[str, Any] = field(default_factory=dict)
    contradictions: tuple[str, ...] = ()
    lossless: tuple[int, int] | None = None
    beyond: str = ""
    differences: tuple[tuple[str, str], ...] = ()
    alike: bool = False
    contracts: str = ""
    own: bool = False
    where: str = ""

    def evidence(self, catalogue: Catalogue) -> list[Evidence]:
        """All evidence. Raises `InputError` for facts that the catalogue lacks."""
        out = figures.of_facts(catalogue, self.facts)
        if self.files:
            out += findings.of_checks(catalogue, self.findings, self.engine)
        if self.measured is not None:
            out += figures.of_curve(catalogue, self.measured)
            if self.expected is not None:
                out += figures.of_expectation(catalogue, self.measured, self.expected)
                out += figures.of_definition(catalogue, self.measured, self.expected)
                where = self.expected.where
                out += findings.of_reference(catalogue, self.alike, self.contracts, where)
        out += findings.of_differences(catalogue, self.differences)
        for trend in self.trends:
            question = catalogue.questions[trend.question]
            out.append(answered(catalogue, question, trend.weights, trend.text, self.where or "records"))
        out += findings.of_lines(catalogue, self.lines)
        if self.probe:
            out += findings.of_probe(catalogue, self.probe, "--probe")
        if self.beyond:
            out.append(figures.of_width(catalogue, self.beyond, self.where))
        if self.contradictions:
            text = f"misread: {self.contradictions[0]}"
            out.append(answered(catalogue, catalogue.questions["figure"], {"misread": 1.0}, text, self.where))
        if self.lossless is not None:
            same, of = self.lossless
            answer = "equal" if same == of else "differs"
            text = f"{answer}: {same} of {of} outputs agree with plain decoding"
            out.append(answered(catalogue, catalogue.questions["text"], {answer: 1.0}, text, self.where))
        return out

    def to_json(self) -> dict[str, Any]:
        """The object `case` of a collected file."""
        return {
            "facts": list(self.facts),
            "findings": [finding.to_json() for finding in self.findings],
            "files": self.files,
            "engine": self.engine,
            "measured": _figures_json(self.measured),
            "expected": _figures_json(self.expected),
            "trends": [asdict(trend) for trend in self.trends],
            "lines": [list(line) for line in self.lines],
            "probe": dict(self.probe),
            "contradictions": list(self.contradictions),
            "lossless": None if self.lossless is None else list(self.lossless),
            "beyond": self.beyond,
            "differences": [list(entry) for entry in self.differences],
            "alike": self.alike,
            "contracts": self.contracts,
            "own": self.own,
        }


def _figures_json(seen: Measured | None) -> dict[str, Any] | None:
    return (
        None
        if seen is None
        else {
            **asdict(seen),
            "survival": list(seen.survival),
            "conditional": list(seen.conditional),
        }
    )


def case_from_json(data: Mapping[str, Any], name: str, inside: str = "") -> Case:
    """The case of the collected file `name`; `inside`: its JSON pointer.

    Raises `InputError` that names the key, what was found and expected.
    """
    where = f"{name}#{inside}"
    reader = _Reader(data, where)
    lossless = reader.get("lossless", (list, type(None)), None)
    return Case(
        facts=_facts(reader.texts("facts"), f"{where}/facts"),
        findings=tuple(_finding(entry, f"{where}/findings/{i}") for i, entry in reader.objects("findings")),
        files=bool(reader.get("files", (bool,), False)),
        engine=bool(reader.get("engine", (bool,), False)),
        measured=_measured(reader.get("measured", (dict, type(None)), None), f"{where}/measured"),
        expected=_measured(reader.get("expected", (dict, type(None)), None), f"{where}/expected"),
        trends=tuple(_trend(entry, f"{where}/trends/{i}") for i, entry in reader.objects("trends")),
        lines=tuple(
            _line(entry, f"{where}/lines/{i}") for i, entry in enumerate(reader.get("lines", (list,), []))
        ),
        probe=_probe(reader.get("probe", (dict,), {}), f"{where}/probe"),
        contradictions=tuple(reader.texts("contradictions")),
        lossless=None if lossless is None else _pair(lossless, f"{where}/lossless"),
        beyond=reader.get("beyond", (str,), ""),
        differences=tuple(
            _line(entry, f"{where}/differences/{i}")
            for i, entry in enumerate(reader.get("differences", (list,), []))
        ),
        alike=bool(reader.get("alike", (bool,), False)),
        contracts=reader.get("contracts", (str,), ""),
        own=bool(reader.get("own", (bool,), False)),
        where=name,
    )


@dataclass(frozen=True)
class _Reader:
    data: Mapping[str, Any]
    where: str

    def get(self, key: str, kinds: tuple[type, ...], default: Any) -> Any:
        value = self.data.get(key, default)
        number = isinstance(value, bool) and bool not in kinds
        if not isinstance(value, kinds) or number:
            expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise InputError(f"{self.where}/{key}: found {value!r:.60}, expected {expected}")
        return value

    def texts(self, key: str) -> list[str]:
        values = self.get(key, (list,), [])
        for i, value in enumerate(values):
            if not isinstance(value, str):
                raise InputError(f"{self.where}/{key}/{i}: found {value!r:.60}, expected text")
        return list(values)

    def objects(self, key: str) -> list[tuple[int, Mapping[str, Any]]]:
        values = self.get(key, (list,), [])
        for i, value in enumerate(values):
            if not isinstance(value, dict):
                raise InputError(f"{self.where}/{key}/{i}: found {value!r:.60}, expected an object")
        return list(enumerate(values))


def _finding(entry: Mapping[str, Any], where: str) -> Finding:
    reader = _Reader(entry, where)
    severity = reader.get("severity", (str,), "")
    if severity not in SEVERITIES:
        raise InputError(f"{where}/severity: found {severity!r:.40}, expected one of {', '.join(SEVERITIES)}")
    confidence = reader.get("confidence", (str,), "possible")
    if confidence not in ("certain", "likely", "possible"):
        raise InputError(
            f"{where}/confidence: found {confidence!r:.40}, expected certain, likely or possible"
        )
    return Finding(
        code=reader.get("code", (str,), ""),
        severity=severity,
        confidence=confidence,
        message=reader.get("message", (str,), ""),
        where=reader.get("where", (str,), ""),
        axis=reader.get("axis", (str, type(None)), None),
        fix=reader.get("fix", (str,), ""),
    )


def _facts(facts: list[str], where: str) -> tuple[str, ...]:
    try:
        figures.of_facts(_catalogue(), facts)
    except InputError as error:
        raise InputError(f"{where}: {str(error).removeprefix('--fact ')}") from None
    return tuple(facts)


def _probe(report: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if report:
        findings.of_probe(_catalogue(), report, where)
    return report


MOST_TAU, MOST_SLOTS, MOST_ROUNDS = 4097.0, 4096, 2**53
"""As the command line and the readers of figures have them."""


def _measured(entry: Mapping[str, Any] | None, where: str) -> Measured | None:
    if entry is None:
        return None
    reader = _Reader(entry, where)
    tau = float(reader.get("tau", (int, float), None))
    survival, conditional = (_shares(reader, key) for key in ("survival", "conditional"))
    for i, share in enumerate(survival):
        if i and share > survival[i - 1]:
            raise InputError(f"{where}/survival/{i}: found {share}, expected at most {survival[i - 1]}")
    rounds, k = (reader.get(key, (int, type(None)), None) for key in ("rounds", "k"))
    if not 1 <= tau <= MOST_TAU or not 0 <= (rounds or 0) <= MOST_ROUNDS:
        raise InputError(
            f"{where}: found tau {tau:.6g} over {rounds!s:.40} rounds, expected tau from 1 to {MOST_TAU:.0f} "
            f"and rounds from 0 to {MOST_ROUNDS}"
        )
    if max(len(survival), len(conditional)) > MOST_SLOTS or not 0 <= (k or 0) <= MOST_SLOTS:
        raise InputError(
            f"{where}: found {max(len(survival), len(conditional))} slots and k {k!s:.40}, "
            f"expected at most {MOST_SLOTS}"
        )
    if sum(survival) > (tau - 1) * 1.01 + 0.06:
        raise InputError(
            f"{where}/survival: found a sum of {sum(survival):.3f}, expected at most tau - 1 = {tau - 1:.3f}"
        )
    return Measured(tau, reader.get("where", (str,), where), rounds, survival, k, conditional)


def _shares(reader: _Reader, key: str) -> tuple[float, ...]:
    values = reader.get(key, (list,), [])
    for i, share in enumerate(values):
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise InputError(f"{reader.where}/{key}/{i}: found {share!r:.40}, expected a share from 0 to 1")
    return tuple(map(float, values))


def _trend(entry: Mapping[str, Any], where: str) -> Trend:
    reader = _Reader(entry, where)
    name, weights = reader.get("question", (str,), ""), reader.get("weights", (dict,), {})
    question = _catalogue().questions.get(name)
    if question is None:
        raise InputError(
            f"{where}/question: found {name!r:.40}, expected one of {', '.join(_catalogue().questions)}"
        )
    for answer, weight in weights.items():
        if answer not in question.values or isinstance(weight, bool) or not isinstance(weight, int | float):
            raise InputError(
                f"{where}/weights: found {answer!r:.40}: {weight!r:.40}, expected answers with weights"
            )
    if not any(weight > 0 for weight in weights.values()) or min(weights.values()) < 0:
        raise InputError(f"{where}/weights: found {weights!r:.60}, expected weights >= 0, not all of them 0")
    return Trend(name, {k: float(v) for k, v in weights.items()}, reader.get("text", (str,), ""))


def _line(entry: Any, where: str) -> tuple[str, str]:
    if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(part, str) for part in entry):
        raise InputError(f"{where}: found {entry!r:.60}, expected [where, text]")
    return entry[0], entry[1]


def _pair(entry: list[Any], where: str) -> tuple[int, int]:
    right = len(entry) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in entry)
    if not right or not 0 <= entry[0] <= entry[1]:
        raise InputError(f"{where}: found {entry!r:.40}, expected [agreeing, compared]")
    return entry[0], entry[1]
