"""`truedraft contract`: print the resolved contract of a pair."""

from __future__ import annotations

import json

import click

from truedraft.cli._contract_text import contract_lines
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Leave out the table: only the hash, and what is not settled.")
def command(target: str, draft: str | None, overrides: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Print how the drafter of a pair was trained.

    TARGET and DRAFT are directories or names of bundled pairs (tiny, tiny/dspark). Weights are not read,
    and a directory with only a config.json will do. Unknown axes and conflicts are printed, with exit code 0.
    """
    contract = resolve(target, draft, overrides).contract
    if as_json:
        click.echo(json.dumps(contract.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        for line in contract_lines(contract, Style.for_stdout(), table=not quiet):
            click.echo(line)
    return 0
