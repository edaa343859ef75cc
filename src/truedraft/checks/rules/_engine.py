"""What all rules about engines share: entries of `diff(native, engine)` as findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from truedraft.checks._finding import Finding, Severity
from truedraft.checks._subject import Subject
from truedraft.checks.rules._where import place
from truedraft.contract import Difference, Sourced, Value, diff, format_value
from truedraft.formats.engines import Fact, Reading

Words = Callable[[Value], str]


def differences(
    subject: Subject, code: str, axes: frozenset[str], verb: str, words: Words = format_value
) -> Iterator[Finding]:
    """Findings for the axes on which an engine that runs the pair differs from its contract.

    The message is "ENGINE `verb` VALUE, the contract says VALUE: why". Nothing is said of a release that
    refuses the pair.
    """
    native = subject.contract
    if native is None:
        return
    open_axes = {conflict.axis for conflict in native.conflicts}
    for reading in subject.readings:
        if reading.refused:
            continue
        for entry in _distinct(diff(native, reading.contract)):
            if entry.axis in axes:
                settled = entry.left.state == "value" and entry.axis not in open_axes
                yield _finding(code, reading, entry, settled, verb, words)


def _distinct(entries: tuple[Difference, ...]) -> Iterator[Difference]:
    """Without the number of proposals where the width, which it follows, differs too."""
    names = {entry.axis for entry in entries}
    for entry in entries:
        if entry.axis != "block.proposals" or "block.width" not in names:
            yield entry


def _finding(
    code: str, reading: Reading, entry: Difference, settled: bool, verb: str, words: Words
) -> Finding:
    fact = reading.facts[entry.axis]
    says = f"the contract says {_show(entry.left, words)}"
    if entry.left.state == "unknown":
        says = "nothing in the files settles it"
    elif not settled:
        says = "the files contradict each other about it"
    doubt = entry.left.source is not None and entry.left.source.kind == "inferred"
    shown = _show(entry.right, words)
    return Finding(
        code=code,
        severity=fact.severity if settled and not doubt else _at_most_warning(fact),
        confidence="certain" if settled and not doubt else "likely" if settled else "possible",
        message=f"{reading.engine.id} {verb} {shown}, {says}: {fact.why}" + _cost(fact),
        where=place(entry.left),
        axis=entry.axis,
        found=_value(entry.right),
        expected=_value(entry.left) if settled else None,
        fix=fact.fix,
        references=(fact.reference,),
    )


def _at_most_warning(fact: Fact) -> Severity:
    return "warning" if fact.severity == "error" else fact.severity


def _cost(fact: Fact) -> str:
    return f"; cost: {fact.cost}" if fact.cost else ""


def _show(sourced: Sourced, words: Words) -> str:
    return words(sourced.value) if sourced.state == "value" else sourced.state.replace("_", " ")


def _value(sourced: Sourced) -> Value:
    """The value as data; what JSON would call null, and a missing value, in words."""
    if sourced.state != "value":
        return sourced.state
    return "none" if sourced.value is None else sourced.value
