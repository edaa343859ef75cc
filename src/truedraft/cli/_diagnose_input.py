"""From files and options to a `Case`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from truedraft.checks import Finding, Subject, Usage, run_checks
from truedraft.cli._check_input import pair_of, prompt_texts
from truedraft.cli._diagnose_figures import beyond_trained, measured_of
from truedraft.cli._diagnose_files import (
    check_files,
    collected_report,
    is_collected,
    lossless_of,
    probe_verdicts,
)
from truedraft.cli._diagnose_given import Given
from truedraft.cli._diagnose_log import Series, boot_lines, signs
from truedraft.cli._diagnose_reference import other_contract, same_prompts
from truedraft.cli._measure_input import is_address, summarise
from truedraft.cli._slow import told_when_slow
from truedraft.contract import AcceptanceRecord, Contract, InputError, diff, format_value
from truedraft.diagnose.arms import ARMS, of_arm
from truedraft.diagnose.case import Case, case_from_json
from truedraft.diagnose.figures import Measured
from truedraft.diagnose.trends import Trend, deployments, of_records
from truedraft.formats import inspect
from truedraft.formats.engines import BootLine, find_engines, read_engine
from truedraft.measure.sources import Summary


@dataclass(frozen=True)
class Gathered:
    """A case and what it rests on. `contract`: `None` without a pair, or if its files make none."""

    case: Case
    contract: Contract | None
    summary: Summary | None
    warnings: tuple[str, ...]


def gather(sources: tuple[str, ...], given: Given) -> Gathered:
    """Read everything. Raises `InputError` for what cannot be read, and if nothing is given."""
    _check_once(sources, given)
    collected = collected_report(sources)
    if collected is not None:
        return Gathered(
            _merged(case_from_json(collected[1]["case"], collected[0], "/case"), given), None, None, ()
        )
    if not (sources or given.target or given.facts or given.logs or given.probe_file):
        raise InputError(
            "found nothing to go by, expected FILE, --target, --log, --probe or --fact "
            "(`truedraft diagnose --questions` lists facts)"
        )
    if given.draft is not None and given.target is None:
        raise InputError("found --draft without --target, expected both")
    if given.target is None and (given.engines or given.overrides or given.weights or given.prompts):
        raise InputError("found --engine, --set, --weights or --prompts without --target, expected the pair")
    _check_references(given)
    lossless = lossless_of(sources)
    series = Series()
    summary = _summary(sources, given, series) if sources else None
    records = tuple(summary.records) if summary else ()
    measured = measured_of(summary, ", ".join(sources), given.width) if summary else None
    findings, contract = _checked(given, records, given.width or (measured.k if measured else None))
    expected, others = _expected(given)
    window = None if contract is None else _window(contract)
    trained = None if contract is None else contract.get("block.proposals")
    trends = of_records(records, window)
    timed = any(trend.question == "uptime" for trend in trends)
    if not timed and (moved := series.trend()) is not None:
        trends.append(moved)
    arms, unused = _arms(sources, given, measured)
    trends += arms
    logs = dict.fromkeys((*(Path(s) for s in sources if not is_address(s) and s != "-"), *given.logs))
    case = Case(
        facts=given.facts,
        findings=tuple(findings),
        files=given.target is not None,
        engine=bool(given.engines),
        measured=measured,
        expected=expected,
        trends=tuple(trends),
        lines=tuple(signs(logs, quiet=given.quiet)),
        probe=probe_verdicts(given.probe_file),
        contradictions=_contradictions(summary),
        lossless=lossless,
        differences=tuple(_differences(given, contract)),
        alike=same_prompts(records, others),
        contracts=other_contract(records, others),
        own={record.engine for record in records} == {"truedraft"},
        beyond=beyond_trained(summary, trained) if summary and isinstance(trained, int) else "",
        where=", ".join(sources),
    )
    warnings = [*(summary.warnings if summary else ()), *_mixed(records), *unused]
    if summary and summary.acceptance.proposed == 0:
        warnings.append(f"{', '.join(sources):.200}: no draft was proposed: speculation was off")
    elif sources and measured is None:
        warnings.append(
            f"{', '.join(sources):.200}: tells no acceptance length that holds: nothing is compared with it"
        )
    return Gathered(case, contract, summary, tuple(warnings))


def _check_once(sources: tuple[str, ...], given: Given) -> None:
    """Refuse stdin where it would be read again, and files that stand for two different things."""
    again = (*map(str, given.logs), *given.references, *given.named_arms.values())
    if "-" in again or sources.count("-") > 1:
        raise InputError("-: found twice, or with --log, --reference or --arm, expected a file")
    check_files(sources)
    check_files(tuple(map(str, given.logs)))
    for option, names in (("--reference", given.references), ("--arm", tuple(given.named_arms.values()))):
        for name in names:
            try:
                check_files((*sources, name))
            except InputError as error:
                raise InputError(f"{option} {error}") from None


def _check_references(given: Given) -> None:
    if given.references and given.expect is not None:
        raise InputError("found --reference and --expect, expected one of them")


def _mixed(records: Sequence[AcceptanceRecord]) -> list[str]:
    """A warning if the records are of several deployments."""
    found = deployments(records)
    if len(found) < 2:
        return []
    names = ", ".join(found[:3]) + (" …" if len(found) > 3 else "")
    return [
        f"records of {len(found)} deployments ({names}) are pooled and give no trends; "
        "expected one per call, the others with --arm"
    ]


def _merged(case: Case, given: Given) -> Case:
    """A collected case with further facts, a probe and an expectation of this call."""
    others = replace(given, facts=(), probe_file=None, expect=None, references=(), quiet=False, network=False)
    if others != Given():
        raise InputError(
            f"{case.where}: found with options about the pair, expected a collected file with --fact, "
            "--probe, --expect or --reference only"
        )
    _check_references(given)
    names = {fact.partition("=")[0].strip() for fact in given.facts}
    kept = tuple(fact for fact in case.facts if fact.partition("=")[0].strip() not in names)
    return replace(
        case,
        facts=(*kept, *given.facts),
        probe=probe_verdicts(given.probe_file) or case.probe,
        expected=_expected(given)[0] or case.expected,
    )


def unused_options(given: Given, case: Case) -> list[str]:
    """Warnings about options that changed nothing."""
    out = []
    named = {
        "thinking": "--thinking",
        "context": "--context",
        "temperature": "--temperature",
        "draft_sampling": "--draft-sampling",
    }
    if not case.files and (idle := [n for f, n in named.items() if getattr(given, f) is not None]):
        out.append(f"{', '.join(idle)}: not used without --target: only `check` takes it")
    if case.expected is not None and case.measured is None:
        out.append(f"{case.expected.where}: not used, there is no acceptance length to compare with")
    return out


def _summary(sources: tuple[str, ...], given: Given, series: Series | None) -> Summary:
    for name in sources:
        if not is_address(name) and name != "-" and series is None and is_collected(Path(name)):
            raise InputError(f"{name}: found a collected file, expected the figures that it was made of")
    with told_when_slow(given.quiet, "reading") as tell:
        tell(", ".join(sources)[:200])
        return summarise(
            sources,
            only=None,
            before=None,
            width=given.width,
            network=given.network,
            keep_records=True,
            watch=None if series is None else series.watch,
        )


def _differences(given: Given, changed: Contract | None) -> Iterator[tuple[str, str]]:
    """Axes that `--set` gives another value than the files do, and how. `changed`: the contract with it."""
    if given.target is None or not given.overrides or given.network:
        return
    stated = inspect(given.target, given.draft).contract
    if stated is not None and changed is not None:
        for change in diff(stated, changed):
            now, was = (
                format_value(s.value) if s.state == "value" else s.state for s in (change.right, change.left)
            )
            yield change.axis, f"--set has {change.axis} {now}, the files {was}"


def _expected(given: Given) -> tuple[Measured | None, tuple[AcceptanceRecord, ...]]:
    """What is expected, and the records that it comes from, if it comes from records."""
    if given.expect is not None:
        return Measured(given.expect, "--expect"), ()
    if not given.references:
        return None, ()
    names = ", ".join(given.references)
    summary = _summary(given.references, given, None)
    found = measured_of(summary, names, None)
    if found is None:
        raise InputError(
            f"{given.references[0]}: found no acceptance length, expected figures with --reference"
        )
    return found, tuple(summary.records)


def _arms(sources: tuple[str, ...], given: Given, base: Measured | None) -> tuple[list[Trend], list[str]]:
    """What the arms say, and warnings about those that say nothing."""
    found, unused = [], []
    for name, file in given.named_arms.items():
        seen = measured_of(_summary((file,), replace(given, width=None), None), file, None)
        if name not in ARMS:
            unused.append(f"--arm {name}: answers no question, expected one of {', '.join(ARMS)}")
        elif seen is None:
            unused.append(f"--arm {name}: {file} tells no acceptance length, nothing to compare")
        elif base is None:
            what = "tells no acceptance length" if sources else "is missing"
            unused.append(f"--arm {name}: FILE {what}, nothing to compare with")
        elif (trend := of_arm(name, base, seen)) is not None:
            found.append(trend)
        else:
            unused.append(f"--arm {name}: acceptance per position is missing on one side, nothing to compare")
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
    boot_log: tuple[BootLine, ...] = tuple(boot_lines(given.logs, quiet=given.quiet))
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
                boot_log=boot_log,
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


__all__ = ["Gathered", "gather", "unused_options"]
