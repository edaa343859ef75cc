"""`truedraft compare`: whether two arms accept differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from truedraft.cli._printable import dumped
from truedraft.cli._style import Style
from truedraft.contract import InputError

if TYPE_CHECKING:
    from truedraft.stats import Comparison

Failure = Literal["never", "regression", "not-equivalent"]


@click.command(name="compare")
@click.argument("files", nargs=-1, required=True, metavar="A.jsonl … [vs] B.jsonl …")
@click.option(
    "--arm-a", metavar="NAME", help="A is the records with this `arm`, of all files unless with `vs`."
)
@click.option("--arm-b", metavar="NAME", help="B likewise.")
@click.option("--by", type=click.Choice(["category"]), help="Also pooled tau per category of prompts.")
@click.option("--margin", metavar="PERCENT", help="Also test whether B lies within this of A (TOST): 2%.")
@click.option(
    "--boots",
    type=click.Choice(["auto", "paired", "independent"]),
    default="auto",
    show_default=True,
    help="Whether boot i of both arms ran side by side; auto: from 5 boots on, if their times say so.",
)
@click.option("--boots-from-files", is_flag=True, help="Every file is one boot, whatever the records say.")
@click.option(
    "--fail-on",
    type=click.Choice(["never", "regression", "not-equivalent"]),
    default="never",
    show_default=True,
    help="Exit with 1 if B is shown to be worse, or is not shown to be within --margin.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, with every figure.")
def command(
    files: tuple[str, ...],
    arm_a: str | None,
    arm_b: str | None,
    by: str | None,
    margin: str | None,
    boots: Literal["auto", "paired", "independent"],
    boots_from_files: bool,
    fail_on: Failure,
    as_json: bool,
) -> int:
    """Compare the acceptance of two arms: A.jsonl B.jsonl, or several files each, A1 A2 A3 vs B1 B2 B3.

    The files hold records, as `run --records` and `measure -o` write them. A boot is one start of the
    engine: records name it in `boot`, or each file is one. Prompts are paired and boots are the random unit,
    so one boot per arm gives an estimate and no verdict.

    Exit codes: 0 no difference shown, or B is better; 1 with --fail-on, B is worse (pooled tau, over all
    prompts or with --by in any category) or not shown to be equivalent; 2 bad input; 3 with --fail-on, one
    boot per arm cannot tell.
    """
    try:
        from truedraft import stats
        from truedraft.cli._compare_input import named, percentage, read_arm, sides
    except ImportError as error:
        raise InputError(f"compare needs {error.name}, which truedraft[engine] installs") from None
    if fail_on == "not-equivalent" and margin is None:
        raise InputError("--fail-on not-equivalent: found no --margin, expected one such as 2%")
    within = None if margin is None else percentage(margin, "--margin")
    of_a, of_b = sides(files, one_side=arm_a is not None and arm_b is not None)
    arms = (
        read_arm(named(letter, only, of), of, only, boots_from_files=boots_from_files)
        for letter, only, of in (("A", arm_a, of_a), ("B", arm_b, of_b))
    )
    result = stats.compare(*arms, margin=within, by_category=by is not None, pairing=boots)
    if as_json:
        from truedraft.cli._compare_json import comparison_json

        click.echo(dumped(comparison_json(result)))
    else:
        from truedraft.cli._compare_text import comparison_lines

        for line in comparison_lines(result, Style.for_stdout()):
            click.echo(line)
    return _exit_code(result, fail_on)


def _exit_code(result: Comparison, fail_on: Failure) -> int:
    rows = result.judged
    if fail_on == "never":
        return 0
    if any(row.test is None for row in rows):
        return 3
    if fail_on == "regression":
        return int(any(row.verdict == "lower" for row in rows))
    return int(not all(row.equivalent for row in rows))
