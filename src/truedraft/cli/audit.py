"""`truedraft audit`: what a release of an engine really does with every kind of drafter."""

from __future__ import annotations

import json
from os.path import realpath
from pathlib import Path

import click

from truedraft.cli._progress import bar
from truedraft.contract import InputError
from truedraft.engines.vllm.audit import PROBES, audit, lines, open_installed, open_wheel


@click.command(name="audit")
@click.argument("engine", type=click.Choice(["vllm"]))
@click.option("--wheel", type=Path, help="A wheel of the release; it is read in place, not installed.")
@click.option("--installed", is_flag=True, help="The release in this interpreter's environment.")
@click.option(
    "--pair",
    "names",
    multiple=True,
    type=click.Choice([probe.name for probe in PROBES]),
    metavar="NAME",
    help="Only this pair (zlab-full, deepseek-v4, …); may be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    engine: str, wheel: Path | None, installed: bool, names: tuple[str, ...], as_json: bool, quiet: bool
) -> int:
    """Call a vLLM release's own functions on small pairs of every kind, and say which conventions it honours.

    Resolvers of taps, the constructors of its drafter models, its runners' first passes, its converters and
    its KV zeroer are taken out of its sources and run with stand-ins: no GPU, no torch, nothing is installed.
    THIS RUNS CODE OF THE WHEEL; audit only wheels that you would install. Exit codes: 0 done, 1 the release
    contradicts what `check --engine` says of it, 2 bad input.
    """
    if (wheel is None) == (not installed):
        raise InputError("audit vllm: found neither or both of --wheel and --installed, expected one")
    source = open_installed() if wheel is None else open_wheel(Path(realpath(wheel)))
    chosen = tuple(probe for probe in PROBES if not names or probe.name in names)
    with bar(f"vLLM {source.version}", quiet) as step:
        found = audit(source, chosen, step)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
    else:
        for line in lines(found):
            click.echo(line)
    return 1 if found.contradictions else 0
