"""`truedraft probe`: let the weights say which convention they were trained with."""

from __future__ import annotations

from pathlib import Path

import click

from truedraft.cli._printable import dumped
from truedraft.cli._probe_input import material, probed
from truedraft.cli._probe_options import probe_options
from truedraft.cli._style import Style


@click.command("probe")
@click.argument("target")
@click.argument("draft", required=False)
@probe_options
@click.option(
    "--given", is_flag=True, help="The prompts are whole texts: generate nothing, score their own tokens."
)
@click.option("--table", is_flag=True, help="Print every candidate.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    target: str,
    draft: str | None,
    texts: tuple[str, ...],
    prompt_file: Path | None,
    overrides: tuple[str, ...],
    max_new_tokens: int | None,
    threads: int | None,
    speculative_tokens: int | None,
    as_json: bool,
    given: bool,
    table: bool,
    quiet: bool,
    **settings: object,
) -> int:
    """Try the other values of every doubtful convention on known text, and say which one the weights support.

    TARGET and DRAFT are directories or a bundled pair, whose stated prompts are taken by default. The target
    generates text once; the drafter then runs on it under every hypothesis, and is scored by the probability
    it gives to the tokens that truly follow and by the drafts that would be accepted. Exit codes: 0 no axis
    is contradicted, 1 one is, 2 bad input, 3 nothing could be decided.
    """
    found = material(target, draft, overrides, texts, prompt_file, threads, speculative_tokens, quiet)
    report = probed(
        found,
        (target, draft),
        overrides,
        settings,
        new_tokens=max_new_tokens,
        speculative_tokens=speculative_tokens,
        given=given,
        quiet=quiet,
    )
    if as_json:
        click.echo(dumped(report.to_json()))
    else:
        from truedraft.cli._probe_text import probe_lines

        for line in probe_lines(report, Style.for_stdout(), table=table):
            click.echo(line)
    if report.contradicted:
        return 1
    return 0 if report.decided else 3
