"""`truedraft doctor`: files, losslessness and weights of a pair on one page, with one closing verdict."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from truedraft.checks import Report, Subject, run_checks
from truedraft.cli._check_output import FORMATS, Page
from truedraft.cli._printable import dumped, printable
from truedraft.cli._probe_input import Material, material, probed
from truedraft.cli._probe_options import probe_options
from truedraft.cli._progress import bar
from truedraft.cli._style import Style
from truedraft.contract import SCHEMA, Deployment, format_value
from truedraft.formats import inspect, resolve
from truedraft.formats.engines import find_engines, read_engine

if TYPE_CHECKING:
    from truedraft.measure import RunReport
    from truedraft.probe import ProbeReport

PROMPTS = 8
"""Prompts whose output is compared with plain decoding."""

TOGETHER = 4
"""Prompts decoded side by side: a pass over a few rows takes little longer than one over a single row."""


@click.command("doctor")
@click.argument("target")
@click.argument("draft", required=False)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME:VERSION[:RUNNER]",
    help="Also say what this release would do with the pair.",
)
@probe_options
@click.option("--quiet", is_flag=True, help="Only the closing verdict, and no progress on stderr.")
def command(
    target: str,
    draft: str | None,
    engines: tuple[str, ...],
    texts: tuple[str, ...],
    prompt_file: Path | None,
    overrides: tuple[str, ...],
    max_new_tokens: int | None,
    threads: int | None,
    speculative_tokens: int | None,
    as_json: bool,
    quiet: bool,
    **settings: object,
) -> int:
    """Say whether a pair runs the way its drafter was trained, and what to do first if not.

    Three examinations: the files (as `check`), the output (as `run`, on the first prompts), the weights (as
    `probe`). TARGET and DRAFT are directories or a bundled pair. Exit codes: 0 nothing is wrong, 1 something
    is, 2 bad input, 3 nothing could be decided.
    """
    releases = dict.fromkeys(engine for text in engines for engine in find_engines(text))
    found = material(target, draft, overrides, texts, prompt_file, threads, speculative_tokens, quiet)
    pair = inspect(target, draft, overrides)
    checks = run_checks(Subject(pair, readings=tuple(read_engine(engine, pair) for engine in releases)))
    report = probed(
        found,
        (target, draft),
        overrides,
        settings,
        new_tokens=max_new_tokens,
        speculative_tokens=speculative_tokens,
        given=False,
        quiet=quiet,
    )
    run = _decoded(
        found,
        report,
        (target, draft),
        overrides,
        max_new_tokens or found.new_tokens,
        speculative_tokens,
        quiet,
    )
    from truedraft.cli._doctor_verdict import EXIT_CODES, closing

    bare = inspect(target, draft, ()).contract if overrides else pair.contract
    end = closing(report.contract, bare, checks, run, report)
    if as_json:
        click.echo(
            dumped(
                {
                    "schema": SCHEMA,
                    "verdict": {"state": end.state, "text": end.verdict, "first": end.first},
                    "checks": [finding.to_json() for finding in checks.findings],
                    "lossless": run.lossless.to_json(),
                    "acceptance": run.acceptance.to_json(),
                    "probe": report.to_json(),
                }
            )
        )
    else:
        style = Style.for_stdout()
        if not quiet:
            _print_page(checks, run, report, style, tuple(str(engine.id) for engine in releases))
        click.echo(style.bold("verdict      ") + printable(end.verdict))
        click.echo(style.bold("first        ") + printable(end.first))
    return EXIT_CODES[end.state]


def _decoded(
    found: Material,
    report: ProbeReport,
    names: tuple[str, str | None],
    overrides: tuple[str, ...],
    new_tokens: int,
    speculative_tokens: int | None,
    quiet: bool,
) -> RunReport:
    """Decode the first prompts as the contract says; where it leaves axes open, as the probe found best."""
    from truedraft import measure
    from truedraft.models.kernels import use_kernels
    from truedraft.models.load import pair_of_model

    open_axes = [f"{v.axis}={format_value(v.best)}" for v in report.axes if v.open]
    resolution = resolve(*names, (*overrides, *open_axes)) if open_axes else found.resolution
    pair = pair_of_model(resolution, found.model, found.tokenizer, speculative_tokens=speculative_tokens)
    use_kernels(pair)
    with bar("decoding, plain and speculative", quiet) as step:
        return measure.run_pair(
            pair.contract,
            pair.target,
            pair.drafter,
            found.prompts[:PROMPTS],
            new_tokens,
            deployment=Deployment(batch_size=TOGETHER),
            on_progress=None if step is None else partial(step, total=min(PROMPTS, len(found.prompts))),
        )


def _print_page(
    checks: Report, run: RunReport, report: ProbeReport, style: Style, engines: tuple[str, ...]
) -> None:
    from truedraft.cli._probe_text import probe_lines
    from truedraft.cli._run_text import acceptance_lines

    click.echo(style.bold("files"))
    for line in FORMATS["text"](Page(checks, style, quiet=True, engines=engines)):
        click.echo("  " + line)
    click.echo(style.bold("output"))
    lossless = run.lossless
    word = "lossless" if lossless.ok else style.warn("NOT LOSSLESS")
    ties = f", {lossless.ties} from a tie of two tokens on not" if lossless.ties else ""
    click.echo(f"  {word}: {lossless.identical} of {lossless.of} identical to plain decoding{ties}")
    for line in acceptance_lines(run.acceptance):
        click.echo("  " + line)
    click.echo(style.bold("weights"))
    for line in probe_lines(report, style, table=False):
        click.echo(("  " + line).rstrip())
    click.echo()
