"""The page that `truedraft diagnose` prints."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

from truedraft.cli._printable import printable
from truedraft.cli._style import Style
from truedraft.contract import SCHEMA
from truedraft.diagnose import NOT_COMPARED, Catalogue, Cause, Diagnosis, Ranked

WIDTH, NARROWEST = 110, 40
"""Columns of a page: those of the terminal, within these bounds."""

SHOWN = 3
"""Pieces of evidence per side, and causes in full, that are printed."""

KIND = {"not-a-bug": "not a bug", "verifier": "the output may change", "unknown": "not in the catalogue"}


def diagnosis_lines(result: Diagnosis, style: Style) -> Iterator[str]:
    """Question of losslessness, observations, causes, next experiment, verdict."""
    yield style.bold("asked first")
    yield from _wrapped("  ", _output(result, style))
    yield style.bold("observed")
    for item in result.evidence:
        yield from _wrapped("  ", f"{printable(item.text)}  [{printable(item.where)}]")
    if not result.evidence:
        yield "  nothing that any cause would make likelier"
    yield style.bold("causes")
    for group in result.listed:
        yield from _group(group, style)
    rest = 1 - sum(group.share for group in result.listed)
    if rest >= 0.005:
        yield f"  {rest:4.0%}  everything else together"
    if result.experiments:
        best = result.experiments[0]
        yield style.bold("next")
        about = ", ".join(best.separates)
        yield from _wrapped("  ", f"{best.ask} (about {best.minutes:.0f} min, tells most about: {about})")
    for warning in result.warnings:
        yield from _wrapped("", style.warn("warning") + f"      {printable(warning)}")
    yield from _wrapped("", style.bold("verdict") + f"      {result.verdict}")
    yield from _wrapped("", style.bold("first") + f"        {result.first}")


def _output(result: Diagnosis, style: Style) -> str:
    question = result.catalogue.questions["text"]
    if result.output == NOT_COMPARED:
        good = (
            "More is accepted than expected, which a broken verifier also does. " if result.too_good else ""
        )
        return f"{question.title} Nobody says. {good}To find out: {question.ask}"
    means = question.means[result.output]
    if result.state == "changed output":
        return style.warn(f"{question.title} No: {means}. Acceptance says nothing until that is mended.")
    return f"{question.title} Yes: {means}."


def _group(group: Ranked, style: Style) -> Iterator[str]:
    head = f"  {group.share:4.0%}  "
    if len(group.causes) > 1:
        yield head + style.bold(f"{len(group.causes)} causes that this does not tell apart")
        for cause, share in list(zip(group.causes, group.shares, strict=True))[:SHOWN]:
            yield from _cause(cause, f"        {share:4.0%}  ", style)
        if len(group.causes) > SHOWN:
            names = ", ".join(cause.name for cause in group.causes[SHOWN:])
            yield from _wrapped("              ", f"and {names}")
    else:
        yield from _cause(group.causes[0], head, style)
    for word, entries in (("for", group.evidence_for), ("against", group.evidence_against)):
        for text, ratio in entries[:SHOWN]:
            times = ratio if ratio >= 1 else 1 / ratio
            yield from _wrapped("        ", f"{word:8}{times:.1f}x  {printable(text)}", hang=17)


def _cause(cause: Cause, head: str, style: Style) -> Iterator[str]:
    kind = f" ({KIND[cause.kind]})" if cause.kind in KIND and "bug" not in cause.title else ""
    yield from _wrapped("", f"{head}{style.bold(cause.title)}{kind} [{cause.name}]", hang=len(head))
    indent = " " * len(head)
    yield from _wrapped(indent, f"expected: {cause.expect}", hang=10)
    if cause.loss is not None:
        low, high = cause.loss
        yield from _wrapped(
            indent,
            f"injected into the bundled pairs it cost {_cost(low)} to {_cost(high)} of the accepted drafts",
        )


def _cost(share: float) -> str:
    return f"{max(share, 0):.0%}"


def _wrapped(indent: str, text: str, hang: int = 0) -> Iterator[str]:
    width = min(WIDTH, max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns))
    yield from textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent + " " * hang, break_on_hyphens=False
    ) or [indent]


def question_lines(catalogue: Catalogue, style: Style) -> Iterator[str]:
    """Every question with its answers, and how to find out."""
    for question in catalogue.questions.values():
        yield style.bold(question.name) + f"  {question.title}"
        for answer, means in question.means.items():
            yield from _wrapped("  ", f"{answer:18}{means}", hang=18)
        yield from _wrapped(
            "  ", f"{'find out':18}{question.ask} (about {question.minutes:.0f} min)", hang=18
        )


def questions_json(catalogue: Catalogue) -> dict[str, Any]:
    """The object of `--questions --json`: question -> title, answers with their meaning, how, minutes."""
    return {
        "schema": SCHEMA,
        "questions": {
            question.name: {
                "title": question.title,
                "answers": dict(question.means),
                "how": question.ask,
                "minutes": question.minutes,
            }
            for question in catalogue.questions.values()
        },
    }
