"""From files and options to a `Case`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from truedraft.checks import Finding, Subject, Usage, run_checks
from truedraft.cli._check_input import pair_of, prompt_texts
from truedraft.cli._measure_input import is_address, summarise
from truedraft.cli._text_file import opened
from truedraft.contract import AcceptanceRecord, Contract, InputError
from truedraft.diagnose.arms import ARMS, of_arm
from truedraft.diagnose.case import Case, case_from_json
from truedraft.diagnose.catalogue import catalogue
from truedraft.diagnose.figures import Measured
from truedraft.diagnose.trends import Trend, by_time, of_records
from truedraft.formats._json import parse_object
from truedraft.formats.engines import find_engines, read_boot_log, read_engine
from truedraft.measure.sources import Item, Observation, Summary

COLLECTED = "truedraft collect"
"""`kind` of a collected file."""

MOST_LINES = 2_000_000
MOST_JSON = 64 * 2**20
LINE_BYTES = 2**16


@dataclass(frozen=True)
class Given:
    """The options of `case_options`, as click gives them."""

    target: str | None = None
    draft: str | None = None
    engines: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    width: int | None = None
    thinking: bool | None = None
    context: int | None = None
    temperature: float | None = None
    draft_sampling: bool | None = None
    weights: bool = False
    prompts: Path | None = None
    logs: tuple[Path, ...] = ()
    references: tuple[str, ...] = ()
    expect: float | None = None
    probe_file: Path | None = None
    arms: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    network: bool = False
    quiet: bool = False

    @property
    def named_arms(self) -> dict[str, str]:
        """Arm -> file. Raises `InputError` for what is not `NAME=FILE`, and for a name twice."""
        out: dict[str, str] = {}
        for text in self.arms:
            name, equals, file = text.partition("=")
            if not equals or not file or not name.strip() or len(name) > 60 or not name.isprintable():
                raise InputError(f"--arm: found {text!r:.80}, expected NAME=FILE such as eager=eager.log")
            if name.strip() in out:
                raise InputError(f"--arm: found {name.strip()!r:.60} twice, expected different names")
            out[name.strip()] = file
        return out


@dataclass
class Series:
    """Log intervals in order, as (seconds are not known) number, rounds, accepted."""

    cells: list[tuple[float, int, int]] = field(default_factory=list)

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """Pass the items on and keep the intervals."""
        for item in items:
            if isinstance(item, Observation) and item.scope == "interval" and not item.contradiction:
                bounds = (item.rounds, item.rounds) if item.rounds is not None else item.rounds_between
                if bounds is not None and item.accepted is not None and bounds[1]:
                    self.cells.append((float(len(self.cells)), sum(bounds) // 2, item.accepted))
            yield item


@dataclass(frozen=True)
class Gathered:
    """A case and what it rests on. `contract`: `None` without a pair, or if its files make none."""

    case: Case
    contract: Contract | None
    summary: Summary | None
    warnings: tuple[str, ...]


def gather(sources: tuple[str, ...], given: Given) -> Gathered:
    """Read everything. Raises `InputError` for what cannot be read, and if nothing is given."""
    collected = _collected(sources)
    if collected is not None:
        return Gathered(_merged(collected, given), None, None, ())
    if not (sources or given.target or given.facts or given.logs or given.probe_file):
        raise InputError(
            "found nothing to go by, expected FILE, --target, --log, --probe or --fact "
            "(`truedraft diagnose --questions` lists facts)"
        )
    if given.draft is not None and given.target is None:
        raise InputError("found --draft without --target, expected both")
    if given.target is None and (given.engines or given.overrides or given.weights or given.prompts):
        raise InputError("found --engine, --set, --weights or --prompts without --target, expected the pair")
    if given.references and given.expect is not None:
        raise InputError("found --reference and --expect, expected one of them")
    plain, lossless = _lossless(sources)
    series = Series()
    summary = _summary(sources, given, series) if plain else None
    records = tuple(summary.records) if summary else ()
    measured = _measured(summary, ", ".join(sources), given.width) if summary else None
    width = given.width or (measured.k if measured else None)
    findings, contract = _checked(given, records, width)
    expected = _expected(given)
    window = None if contract is None else _window(contract)
    trends = of_records(records, window)
    if not records and (moved := by_time(series.cells, "log intervals")) is not None:
        trends.append(moved)
    arms, unused = _arms(given, measured)
    trends += arms
    case = Case(
        facts=given.facts,
        findings=tuple(findings),
        files=given.target is not None,
        engine=bool(given.engines),
        measured=measured,
        expected=expected,
        trends=tuple(trends),
        lines=tuple(_signs((*(Path(s) for s in sources if not is_address(s) and s != "-"), *given.logs))),
        probe=_probe(given.probe_file),
        contradictions=_contradictions(summary),
        lossless=lossless,
        where=", ".join(sources),
    )
    return Gathered(case, contract, summary, (*(summary.warnings if summary else ()), *unused))


def _collected(sources: tuple[str, ...]) -> Case | None:
    """The case of a file that `collect` wrote, if the source is one."""
    found = [name for name in sources if not is_address(name) and name != "-" and _is_collected(Path(name))]
    if not found:
        return None
    if len(sources) > 1:
        raise InputError(f"{found[0]}: found beside other files, expected a collected file alone")
    data = _object(Path(found[0]))
    if data.get("schema") != 1:
        raise InputError(f"{found[0]}#/schema: found {data.get('schema')!r:.40}, expected 1")
    if not isinstance(data.get("case"), dict):
        raise InputError(f"{found[0]}#/case: found {data.get('case')!r:.40}, expected an object")
    return case_from_json(data["case"], found[0])


def _is_collected(path: Path) -> bool:
    with opened(path) as file:
        head = file.read(400)
    return f'"{COLLECTED}"'.encode() in head


def _object(path: Path) -> dict[str, Any]:
    with opened(path) as file:
        data = file.read(MOST_JSON + 1)
    if len(data) > MOST_JSON:
        raise InputError(f"{path}: found more than {MOST_JSON} bytes, expected a smaller file")
    return parse_object(data, str(path))


def _merged(case: Case, given: Given) -> Case:
    """A collected case with further facts, a probe and an expectation of this call."""
    others = replace(given, facts=(), probe_file=None, expect=None, references=(), quiet=False, network=False)
    if others != Given():
        raise InputError(
            f"{case.where}: found with options about the pair, expected a collected file with --fact, "
            "--probe, --expect or --reference only"
        )
    names = {fact.partition("=")[0] for fact in given.facts}
    kept = tuple(fact for fact in case.facts if fact.partition("=")[0] not in names)
    return replace(
        case,
        facts=(*kept, *given.facts),
        probe=_probe(given.probe_file) or case.probe,
        expected=_expected(given) or case.expected,
    )


def _lossless(sources: tuple[str, ...]) -> tuple[bool, tuple[int, int] | None]:
    """Whether the sources have figures, and what our own run's JSON says about its output."""
    for name in sources:
        if not name.endswith(".json") or is_address(name):
            continue
        with opened(Path(name)) as file:
            data = file.read(MOST_JSON)
        try:
            found = json.loads(data)
        except ValueError:
            continue
        entry = found.get("lossless") if isinstance(found, dict) else None
        if isinstance(entry, dict) and isinstance(entry.get("of"), int) and entry["of"]:
            same = entry.get("identical", 0) + entry.get("ties", 0)
            return True, (int(same), int(entry["of"]))
    return bool(sources), None


def _summary(sources: tuple[str, ...], given: Given, series: Series | None) -> Summary:
    return summarise(
        sources,
        only=None,
        before=None,
        width=given.width,
        network=given.network,
        keep_records=True,
        watch=None if series is None else series.watch,
    )


def _measured(summary: Summary, where: str, width: int | None) -> Measured | None:
    """The pooled figures, if they tell τ."""
    pooled = summary.acceptance
    tau = pooled.tau
    if tau is None and pooled.tau_between is not None:
        tau = sum(pooled.tau_between) / 2
    if tau is None:
        return None
    rounds = pooled.rounds if pooled.rounds is not None else None
    if rounds is None and pooled.rounds_between is not None:
        rounds = pooled.rounds_between[0]
    widths = {k for group in summary.chosen for k in group.pool.widths}
    k = width or (widths.pop() if len(widths) == 1 else None)
    return Measured(tau, where, rounds, tuple(pooled.survival), k)


def _expected(given: Given) -> Measured | None:
    if given.expect is not None:
        return Measured(given.expect, "--expect")
    if not given.references:
        return None
    found = _measured(_summary(given.references, given, None), ", ".join(given.references), None)
    if found is None:
        raise InputError(
            f"{given.references[0]}: found no acceptance length, expected figures with --reference"
        )
    return found


def _arms(given: Given, base: Measured | None) -> tuple[list[Trend], list[str]]:
    """What the arms say, and warnings about those that say nothing."""
    found, unused = [], []
    for name, file in given.named_arms.items():
        seen = _measured(_summary((file,), replace(given, width=None), None), file, None)
        if base is None or seen is None:
            unused.append(f"--arm {name}: found no acceptance length in it and in FILE, nothing to compare")
        elif (trend := of_arm(name, base, seen)) is not None:
            found.append(trend)
        else:
            unused.append(f"--arm {name}: answers no question, expected one of {', '.join(ARMS)}")
    return found, unused


def _contradictions(summary: Summary | None) -> tuple[str, ...]:
    return () if summary is None else tuple(f"{s.where}: {s.contradiction}" for s in summary.contradictory)


def _checked(
    given: Given, records: Sequence[AcceptanceRecord], width: int | None
) -> tuple[Sequence[Finding], Contract | None]:
    """Findings on the pair with everything else that is known."""
    if given.target is None:
        return (), None
    releases = dict.fromkeys(engine for text in given.engines for engine in find_engines(text))
    with pair_of(
        given.target,
        given.draft,
        given.overrides,
        network=given.network,
        weights=given.weights,
        quiet=given.quiet,
    ) as pair:
        known = pair.contract is not None
        report = run_checks(
            Subject(
                pair,
                readings=tuple(read_engine(engine, pair, width) for engine in releases) if known else (),
                usage=Usage(width, given.thinking, given.context, given.temperature, given.draft_sampling),
                weights=given.weights,
                boot_log=tuple(read_boot_log(text for path in given.logs for _, text in _lines(path))),
                prompts=() if given.prompts is None else prompt_texts(given.prompts),
                records=records,
            ),
            pedantic=True,
        )
        return report.findings, pair.contract


def _window(contract: Contract) -> int | None:
    """The narrowest window of the draft layers, or the trained context."""
    windows = [w for w in contract.get("attention.window") or () if isinstance(w, int) and w]
    trained = contract.get("regime.context_length")
    return min(windows) if windows else trained if isinstance(trained, int) and trained else None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a log; the beginning of absurdly long ones."""
    number, inside = 0, False
    with opened(path) as file:
        while number < MOST_LINES and (line := file.readline(LINE_BYTES)):
            if not inside:
                number += 1
                yield number, line.decode("utf-8", errors="replace")
            inside = not line.endswith(b"\n")


def _signs(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Lines that a sign of the catalogue matches; every different text of a sign once."""
    signs = catalogue().lines.values()
    seen: set[tuple[str, str]] = set()
    for path in paths:
        for number, text in _lines(path):
            for sign in signs:
                found = sign.pattern.search(text)
                if found is not None and (sign.name, found[0]) not in seen and len(seen) < 1000:
                    seen.add((sign.name, found[0]))
                    yield f"{path.name}:{number}", text.strip()[:400]


def _probe(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    report = _object(path)
    found = report.get("probe", report)
    if not isinstance(found, dict) or not isinstance(found.get("axes"), dict):
        raise InputError(f"{path}#/axes: missing, expected the JSON of `truedraft probe --json`")
    return {"axes": {axis: {"verdict": _verdict(path, axis, entry)} for axis, entry in found["axes"].items()}}


def _verdict(path: Path, axis: str, entry: Any) -> str:
    verdict = entry.get("verdict") if isinstance(entry, dict) else None
    if not isinstance(verdict, str):
        raise InputError(f"{path}#/axes/{axis:.60}/verdict: found {verdict!r:.40}, expected text")
    return verdict


__all__ = ["COLLECTED", "Gathered", "Given", "Trend", "gather"]
