"""`truedraft diagnose`: what may be the matter, what speaks for it, and what to find out next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from truedraft.cli._diagnose_options import case_options
from truedraft.cli._printable import dumped, printable
from truedraft.cli._style import Style
from truedraft.contract import InputError

UNDECIDED = 3


@click.command("diagnose")
@click.argument("sources", nargs=-1, metavar="[FILE|URL]...")
@case_options
@click.option("--questions", is_flag=True, help="List what --fact can say, and what each answer means.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(sources: tuple[str, ...], questions: bool, as_json: bool, **options: Any) -> int:
    """Say why acceptance is low, or that it is normal, from whatever is known.

    FILE: figures as `truedraft measure` reads them (logs, /metrics, records, reports), or one file of
    `truedraft collect`. With --target and --draft the pair's files are checked too. Every cause comes with
    what speaks for and against it; causes that the data do not tell apart come together. Exit codes: 0 one
    cause or group has at least half of the belief, 1 the output changed, 2 bad input, 3 undecided.
    """
    from truedraft.cli._diagnose_text import diagnosis_lines, question_lines, questions_json
    from truedraft.diagnose import catalogue

    style = Style.for_stdout()
    from truedraft.cli._diagnose_given import Given
    from truedraft.cli._diagnose_input import gather, unused_options

    given = Given(**options)
    if questions:
        if sources or replace(given, quiet=False) != Given():
            raise InputError("found --questions with other options, expected it alone or with --json")
        if as_json:
            click.echo(dumped(questions_json(catalogue())))
            return 0
        for line in question_lines(catalogue(), style):
            click.echo(line)
        return 0
    from truedraft.diagnose import diagnose

    found = gather(sources, given)
    result = diagnose(
        catalogue(),
        found.case.evidence(catalogue()),
        files=found.case.files,
        engine=found.case.engine,
        own=found.case.own,
        warnings=(*found.warnings, *unused_options(given, found.case)),
    )
    if as_json:
        click.echo(dumped(result.to_json()))
    else:
        for line in diagnosis_lines(result, style):
            click.echo(printable(line) if not style.colour else line)
    return {"leading": 0, "changed output": 1, "undecided": UNDECIDED}[result.state]
