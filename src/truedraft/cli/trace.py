"""`truedraft trace`: traces that a live engine has written."""

from __future__ import annotations

from pathlib import Path

import click

from truedraft.cli._printable import dumped
from truedraft.cli._progress import bar, engine_imports, set_threads, status
from truedraft.cli._style import Style


@click.group(name="trace", no_args_is_help=False)
def command() -> None:
    """What a live engine's drafter was given and made of it, recorded with TRUEDRAFT_TRACE."""


@command.command("diff", short_help="Name the first step of a trace that leaves the contract.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.argument("target", required=False)
@click.argument("draft", required=False)
@click.option("--set", "overrides", multiple=True, metavar="AXIS=VALUE", help="Override an axis first.")
@click.option(
    "--max-rows",
    type=click.IntRange(1, 2**20),
    default=4096,
    show_default=True,
    help="Positions of each request whose target states are recomputed.",
)
@click.option("--threads", type=click.IntRange(1, 256), help="CPU threads for torch.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def diff(
    trace: Path,
    target: str | None,
    draft: str | None,
    overrides: tuple[str, ...],
    max_rows: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Recompute every step of a trace and name the first one that leaves the contract.

    TARGET and DRAFT are directories or a bundled pair; without them, those that the engine was told. Each
    step is fed with the engine's own input of it, so that one fault does not accuse what follows. Exit codes:
    0 all steps are as the contract says, 1 one is not, 2 bad input, 3 nothing could be recomputed, or the
    contract is not settled.
    """
    with engine_imports():
        from truedraft.formats import resolve
        from truedraft.models.load import load_model, refuse_unsettled
        from truedraft.probe import Wiring
        from truedraft.trace import Trace, diff_trace
    recorded = Trace(trace)
    names = (recorded.about.target, recorded.about.draft) if target is None else (target, draft)
    resolution = resolve(*names, overrides)
    refuse_unsettled(resolution.contract)
    with status("loading the target", quiet):
        model = load_model(resolution)
    set_threads(model, threads)
    with bar("recomputing", quiet) as step:
        on_progress = None if step is None else (lambda what, done, total: step(done, total, what))
        found = diff_trace(recorded, Wiring(*names, overrides), model, max_rows, on_progress)
    if as_json:
        click.echo(dumped(found.to_json()))
    else:
        from truedraft.cli._trace_text import trace_lines

        for line in trace_lines(found, Style.for_stdout()):
            click.echo(line)
    return 0 if found.first is None else 1
