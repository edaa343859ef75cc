"""`truedraft collect`: everything that a report of low acceptance should hold, in one redacted file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truedraft.cli._diagnose_options import case_options
from truedraft.cli._printable import printable
from truedraft.cli._records import write_text
from truedraft.cli._style import Style


@click.command("collect")
@click.argument("sources", nargs=-1, metavar="[FILE|URL]...")
@case_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file that is written."
)
@click.option("--with-prompts", is_flag=True, help="Include the texts of the prompts.")
@click.option("--no-hash", is_flag=True, help="No checksums of the drafter's weights.")
@click.option("--json", "as_json", is_flag=True, help="Print the object instead of the summary, as well.")
def command(
    sources: tuple[str, ...],
    output: Path,
    with_prompts: bool,
    no_hash: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Gather what a good report of low acceptance holds into one file, without names, paths and secrets.

    FILE: figures as `truedraft measure` reads them (logs, /metrics, records, reports). `truedraft diagnose`
    works from the file alone, and a maintainer can read it. What is still missing is listed, with the command
    that gets it. With --json the object goes to stdout too, in place of the summary. Exit codes: 0 written,
    2 bad input, or something private could not be taken out; nothing is written then.
    """
    from truedraft.cli._collect import Wanted, collected
    from truedraft.cli._collect_file import check_output, checked_text
    from truedraft.cli._collect_identity import identity_of
    from truedraft.cli._collect_text import summary_lines
    from truedraft.cli._diagnose_given import Given
    from truedraft.diagnose.redact import redact

    given = Given(**options)
    wanted = Wanted(sources, given, with_prompts, not no_hash)
    check_output(output, wanted.inputs)
    redacted = redact(collected(wanted), identity_of(wanted.inputs))
    report = redacted.value | {"redacted": dict(sorted(redacted.counts.items()))}
    text = checked_text(report, redacted.identity, output)
    write_text(output, text)
    if as_json:
        click.echo(text, nl=False)
        return 0
    style = Style.for_stdout()
    for line in summary_lines(report, output, len(text.encode()), style):
        click.echo(line if style.colour else printable(line))
    return 0
