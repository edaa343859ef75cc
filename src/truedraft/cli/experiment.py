"""`truedraft experiment`: arms of one vLLM against each other, in fresh boots that alternate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from truedraft.cli._experiment_options import experiment_options
from truedraft.cli._printable import dumped
from truedraft.cli._progress import bar
from truedraft.cli._style import Style
from truedraft.contract import InputError


@click.command("experiment")
@click.argument("target")
@click.argument("draft", required=False)
@experiment_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    target: str, draft: str | None, out: Path, boots: int, as_json: bool, quiet: bool, **given: Any
) -> int:
    """What a fix does to acceptance in vLLM: fresh boots of all arms in turn, with intervals.

    TARGET and DRAFT are directories or a bundled pair. Every boot starts vLLM anew in the environment of
    --python and decodes the prompts greedily, one by one; its outputs are compared with plain decoding of the
    same engine, and prompts whose output differs are left out. Boots that are complete in --out are not run
    again. docs/experiment.md has the design.

    Exit codes: 0 done; 1 an output differs from plain decoding; 2 bad input, or a boot failed.
    """
    try:
        from truedraft.cli._experiment_setup import boots_in, setup_of
        from truedraft.engines.vllm.experiment import outcome, run_boots
    except ImportError as error:
        raise InputError(
            f"experiment needs {error.name}, expected truedraft[engine] here, and --python for vLLM's own"
        ) from None
    from truedraft.cli._pair import ended_by_signals
    from truedraft.cli._records import write_records

    setup = setup_of(target, draft, given, quiet)
    where = boots_in(out, given)
    with ended_by_signals(), bar("booting vLLM", quiet) as step:
        progress = partial(_told, step) if step is not None else None if quiet else _line
        results = run_boots(setup, boots, where, progress)
    found = outcome(setup, results)
    write_records(out / "records.jsonl", found.records)
    if as_json:
        from truedraft.cli._experiment_json import experiment_json

        click.echo(dumped(experiment_json(setup, found)))
    else:
        from truedraft.cli._experiment_text import experiment_lines

        for line in experiment_lines(setup, found, Style.for_stdout()):
            click.echo(line)
    return 1 if found.divergences else 0


def _line(_done: int, _total: int, what: str) -> None:
    """Without a terminal a boot is a line: some take minutes."""
    click.echo(what, err=True)


def _told(step: Any, done: int, total: int, what: str) -> None:
    step(done, total, what)
