"""`truedraft contract`: print the resolved contract of a pair."""

from __future__ import annotations

import json

import click

from truedraft.cli._contract_text import contract_lines
from truedraft.cli._pair import local_pair
from truedraft.cli._style import Style
from truedraft.formats import resolve


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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Leave out the table: only the hash, and what is not settled.")
def command(
    target: str, draft: str | None, overrides: tuple[str, ...], network: bool, as_json: bool, quiet: bool
) -> int:
    """Print how the drafter of a pair was trained.

    TARGET and DRAFT are directories or names of bundled pairs (tiny, tiny/dspark), with --network also hub
    ids (ORG/NAME[@REVISION]; HF_ENDPOINT and HF_TOKEN are honoured). Weights are not read, and a directory
    with only a config.json will do. Unknown axes and conflicts are printed, with exit code 0.
    """
    with local_pair(target, draft, network=network, quiet=quiet) as names:
        contract = resolve(*names, overrides).contract
    if as_json:
        click.echo(json.dumps(contract.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        for line in contract_lines(contract, Style.for_stdout(), table=not quiet):
            click.echo(line)
    return 0
