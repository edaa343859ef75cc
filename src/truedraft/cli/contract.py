"""`truedraft contract`: print the resolved contract of a pair."""

from __future__ import annotations

from pathlib import Path

import click

from truedraft.cli._contract_text import contract_lines
from truedraft.cli._pair import local_pair
from truedraft.cli._printable import dumped
from truedraft.cli._style import Style
from truedraft.contract import InputError
from truedraft.formats import Inspection, read_measured, resolve
from truedraft.formats.engines import Engine, find_engines, read_engine


@click.command(name="contract")
@click.argument("target")
@click.argument("draft", required=False)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="AXIS=VALUE",
    help="Override an axis, or one entry: AXIS[i]=VALUE.",
)
@click.option(
    "--network", is_flag=True, help="TARGET or DRAFT may be a hub id; headers are fetched by range."
)
@click.option(
    "--engine",
    metavar="NAME:VERSION[:RUNNER]",
    help="Print what this release would make of the pair instead (`truedraft engines` lists all).",
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="A report of `truedraft probe --json`: what it decided becomes a source.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Leave out the table: only the hash, and what is not settled.")
def command(
    target: str,
    draft: str | None,
    overrides: tuple[str, ...],
    network: bool,
    engine: str | None,
    measured: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Print how the drafter of a pair was trained.

    TARGET and DRAFT are directories or names of bundled pairs (tiny, tiny/dspark), with --network also hub
    ids (ORG/NAME[@REVISION]; HF_ENDPOINT and HF_TOKEN are honoured). Weights are not read, and a directory
    with only a config.json will do. Unknown axes and conflicts are printed, with exit code 0. With --engine
    the same table shows what that release would run; its dialect is then the release.
    """
    release = None if engine is None else _one_runner(engine)
    with local_pair(target, draft, network=network, quiet=quiet) as names:
        pair = resolve(*names, overrides)
        if measured is not None:
            pair = resolve(*names, overrides, read_measured(measured, pair.contract))
        contract = pair.contract
        files = Inspection(contract.target, pair.target, pair.draft, contract)
        reading = None if release is None else read_engine(release, files)
    refusals = () if reading is None else reading.refusals
    if reading is not None:
        contract = reading.contract
    out = contract.to_json()
    if reading is not None:
        out |= {"deployment": reading.deployment.to_json(), "refusals": [r.why for r in refusals]}
    if as_json:
        click.echo(dumped(out))
        return 0
    style = Style.for_stdout()
    for line in contract_lines(contract, style, table=not quiet):
        click.echo(line)
    for refusal in refusals:
        click.echo(style.warn(f"{engine} does not run this pair: ") + refusal.why)
    return 0


def _one_runner(text: str) -> Engine:
    found = find_engines(text)
    if len(found) > 1:
        known = " or ".join(str(engine.id) for engine in found)
        raise InputError(f"--engine {text[:80]}: found {len(found)} runners, expected one: {known}")
    return found[0]
