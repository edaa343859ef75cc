"""Evidence from statements that name a cause: findings of `check`, verdicts of `probe`, lines of logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from truedraft.checks import Finding
from truedraft.contract import InputError
from truedraft.diagnose.catalogue import Catalogue, Cause
from truedraft.diagnose.infer import FILES, PROBE, READING, Evidence

NAMED: dict[tuple[str, str], tuple[float, float]] = {
    ("error", "certain"): (0.60, 0.02),
    ("error", "likely"): (0.50, 0.03),
    ("error", "possible"): (0.40, 0.05),
    ("warning", "certain"): (0.40, 0.06),
    ("warning", "likely"): (0.35, 0.08),
    ("warning", "possible"): (0.30, 0.10),
    ("note", "certain"): (0.25, 0.12),
    ("note", "likely"): (0.25, 0.12),
    ("note", "possible"): (0.20, 0.12),
}
"""Severity, confidence -> P(found | it is the cause), P(found | something else is). Pairs that are in order
have notes too, so that these say little."""

UNNAMED, UNNAMED_FILES = 0.45, 0.80
"""P(no finding | the cause), where checks could have named it; where that takes an engine's reading."""

CONTRADICTED, TRAINED_SO, BY_CHANCE = 0.90, 0.30, 0.005
"""P(the probe contradicts the axis | the pair's contract is wrong there), | it was trained otherwise than its
files say), | something else): a probe is wrong anywhere in one of twenty."""

SUPPORTED = 0.60
"""P(the probe supports every axis of the cause | the cause): the engine may still do otherwise."""


def named_by(causes: Iterable[Cause], finding: Finding) -> list[Cause]:
    """The causes that a finding is about: by the tensor that it names, else by its axis, else by its code."""
    text = f"{finding.message} {finding.where}"
    rules: tuple[Callable[[Cause], bool], ...] = (
        lambda cause: finding.code in cause.codes and any(name in text for name in cause.tensors),
        lambda cause: finding.axis in cause.axes,
        lambda cause: finding.code in cause.codes,
    )
    known = tuple(causes)
    return next((named for rule in rules if (named := [c for c in known if rule(c)])), [])


def of_checks(catalogue: Catalogue, findings: Sequence[Finding], engine: bool) -> list[Evidence]:
    """Evidence of a whole run of `check`; `engine`: whether an engine's reading was among it."""
    causes = catalogue.causes.values()
    strongest: dict[str, Finding] = {}
    for finding in sorted(findings, key=_weight, reverse=True):
        for cause in named_by(causes, finding):
            strongest.setdefault(cause.name, finding)
    out = []
    for finding in dict.fromkeys(strongest.values()):
        likely, chance = NAMED[finding.severity, finding.confidence]
        likelihood = {
            cause.name: likely if strongest.get(cause.name) is finding else chance for cause in causes
        }
        text = f"check {finding.code}: {finding.message}"
        out.append(Evidence(FILES, text, finding.where, likelihood, {}))
    silent = {cause.name: 1.0 if cause.name in strongest else _silence(cause, engine) for cause in causes}
    said = "names nothing else" if findings else "found nothing"
    out.append(Evidence(FILES, f"check {said}", "truedraft check", silent, {}))
    return out


def _weight(finding: Finding) -> float:
    likely, chance = NAMED[finding.severity, finding.confidence]
    return likely / chance


def _silence(cause: Cause, engine: bool) -> float:
    if not cause.codes:
        return 1.0
    if not engine and all(code.startswith("TD4") for code in cause.codes):
        return UNNAMED_FILES
    return UNNAMED


def _named_axis(catalogue: Catalogue, axis: str, likely: float, chance: float) -> dict[str, float]:
    return {name: likely if axis in cause.axes else chance for name, cause in catalogue.causes.items()}


def _shown(value: object) -> str:
    """A value of a probe's JSON in a line; empty for none."""
    return "" if value is None else json.dumps(value)[:80].replace('"', "")


DIFFERS, DIFFERS_BY_CHANCE = 0.85, 0.03
"""P(a stated difference of contracts concerns the cause's axes | the cause), | something else)."""

OTHER_CONTRACT, SAME_OR_NOT = 0.9, 0.15
"""P(run and reference have different contracts | a broken convention), | something else)."""

EXPLAINED, UNEXPLAINED = 0.9, 0.05
"""P(the same prompts do worse than in the reference | a cause in the deployment), | a cause in the text)."""

IN_THE_TEXT = frozenset(
    {"template", "weak-drafter", "domain", "random-prompts", "misread", "k-too-large", "long-answer"}
)
"""Causes that act on both sides where both ran the same prompts at the same k."""


def of_differences(catalogue: Catalogue, differences: Iterable[tuple[str, str]]) -> list[Evidence]:
    """Evidence of (axis, in words how the contract differs from what the files say)."""
    return [
        Evidence(FILES, f"contract: {text}", "--set", named, {})
        for axis, text in differences
        for named in [_named_axis(catalogue, axis, DIFFERS, DIFFERS_BY_CHANCE)]
    ]


def of_reference(catalogue: Catalogue, alike: bool, contracts: str, where: str) -> list[Evidence]:
    """Evidence of a reference. `alike`: it ran the same prompts at the same k; `contracts`: in words, if the
    two ran under different contracts.
    """
    out = []
    if alike:
        likelihood = {name: UNEXPLAINED if name in IN_THE_TEXT else EXPLAINED for name in catalogue.causes}
        text = "the reference ran the same prompts, rendered to as many tokens, at the same k"
        out.append(Evidence("reference", text, where, likelihood, {}))
    if contracts:
        likelihood = {
            name: OTHER_CONTRACT if cause.kind == "convention" else SAME_OR_NOT
            for name, cause in catalogue.causes.items()
        }
        out.append(Evidence("reference", contracts, where, likelihood, {}))
    return out


def of_probe(catalogue: Catalogue, report: Mapping[str, Any], where: str) -> list[Evidence]:
    """Evidence of `truedraft probe --json` or of the same object inside `doctor --json`.

    Raises `InputError` naming the key if it is neither.
    """
    probe = report.get("probe", report)
    axes = probe.get("axes") if isinstance(probe, dict) else None
    if not isinstance(axes, dict):
        raise InputError(f"{where}#/axes: found {type(axes).__name__}, expected the JSON of truedraft probe")
    verdicts = {}
    for axis, entry in axes.items():
        verdict = entry.get("verdict") if isinstance(entry, dict) else None
        if not isinstance(verdict, str):
            raise InputError(f"{where}#/axes/{axis:.60}/verdict: found {verdict!r:.40}, expected text")
        verdicts[axis] = verdict
    out = []
    for axis, verdict in verdicts.items():
        if verdict == "contradicted":
            likelihood = _named_axis(catalogue, axis, CONTRADICTED, BY_CHANCE)
            likelihood["training-mismatch"] = TRAINED_SO
            value, best = (_shown(axes[axis].get(key)) for key in ("value", "best"))
            text = f"probe: the weights contradict {axis} as the contract has it"
            text += f": {best}, not {value}" if best and value else ""
            remedy = f"correct {axis}: the weights were trained with {best}" if best else ""
            out.append(Evidence(PROBE, text, where, likelihood, {}, remedy))
    supported = {axis for axis, verdict in verdicts.items() if verdict == "supported"}
    if supported:
        likelihood = {
            name: SUPPORTED
            if set(cause.axes) & set(verdicts) and set(cause.axes) & set(verdicts) <= supported
            else 1.0
            for name, cause in catalogue.causes.items()
        }
        if len(set(likelihood.values())) > 1:
            text = f"probe: the weights support {len(supported)} axes of the contract"
            out.append(Evidence(PROBE, text, where, likelihood, {}))
    return out


def of_lines(catalogue: Catalogue, lines: Iterable[tuple[str, str]]) -> list[Evidence]:
    """Evidence of log lines, (where, text); of each sign the first."""
    first: dict[str, tuple[str, str]] = {}
    seen: dict[str, dict[str, str]] = {}
    for where, text in lines:
        for name, sign in catalogue.lines.items():
            found = sign.pattern.search(text)
            if found is None:
                continue
            first.setdefault(name, (where, text))
            seen.setdefault(name, {}).setdefault(found[0], where)
    out = []
    for name, (where, text) in first.items():
        sign = catalogue.lines[name]
        if sign.differs and len(seen[name]) < 2:
            continue
        likelihood = {cause: sign.causes.get(cause, sign.background) for cause in catalogue.causes}
        shown = " | ".join(seen[name]) if sign.differs else text.strip()
        out.append(Evidence("line", f"log: {shown:.200} ({sign.says})", where, likelihood, {}))
    return out


BY_FILES, BY_READING, BY_PROBE, BY_PROBE_HERE = 0.5, 0.3, 0.15, 0.4
"""P(named | the cause) before trying. Not every engine's reading is known; the probe sees a wrong contract,
not an engine that does otherwise, and where the pair is at hand and no engine is named, more often."""


def experiments(
    catalogue: Catalogue, *, files: bool, engine: bool, own: bool = False
) -> list[tuple[str, str, float, dict[str, list[float]]]]:
    """What the files and the weights could still tell: (name, how, minutes, cause -> P(outcome | cause))."""
    names = list(catalogue.causes)
    out = []
    if not files:
        how = "give the pair, so that its files are checked: --target, --draft, --engine"
        checked = {n: c for n, c in catalogue.causes.items() if c.codes}
        out.append((FILES, how, 1.0, _naming(names, checked, BY_FILES)))
    elif not engine and not own:
        how = "name the engine that serves the pair, so that its reading is checked: --engine NAME:VERSION"
        read = {n: c for n, c in catalogue.causes.items() if any(code.startswith("TD4") for code in c.codes)}
        out.append((READING, how, 1.0, _naming(names, read, BY_READING)))
    probed = {n: c for n, c in catalogue.causes.items() if c.axes}
    by_probe = BY_PROBE_HERE if files and not engine else BY_PROBE
    how = "`truedraft probe TARGET DRAFT --json > probe.json`, then --probe probe.json"
    out.append((PROBE, how, 2.0, _naming(names, probed, by_probe)))
    return out


def _naming(names: list[str], able: Mapping[str, Cause], likely: float) -> dict[str, list[float]]:
    """Outcomes: each cause that can be named, and none."""
    stray = 0.02
    out = {}
    for name in names:
        row = [stray / len(able)] * len(able)
        if name in able:
            row[list(able).index(name)] = likely
        out[name] = [*row, 1 - sum(row)]
    return out
