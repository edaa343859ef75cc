"""`truedraft plan`: how many boots and prompts a comparison needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truedraft.cli._numbers import FiniteRange
from truedraft.cli._printable import dumped
from truedraft.contract import InputError

if TYPE_CHECKING:
    from truedraft.stats import Spread

BOOTS = (2, 3, 5, 8, 12, 20)


@click.command(name="plan")
@click.argument("files", nargs=-1, required=True, metavar="PILOT.jsonl …")
@click.option("--effect", required=True, metavar="PERCENT", help="The change of tau that must be seen: 2%.")
@click.option(
    "--power",
    type=FiniteRange(0.5, 0.99),
    default=0.8,
    show_default=True,
    help="Chance with which it must be seen.",
)
@click.option("--boots-from-files", is_flag=True, help="Every file is one boot, whatever the records say.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(files: tuple[str, ...], effect: str, power: float, boots_from_files: bool, as_json: bool) -> int:
    """Say how many boots per arm, over how many prompts, show a change of pooled tau by --effect.

    PILOT is records of at least two boots of one arm; several arms are pooled, each around its own tau. The
    test is that of `compare` at level 5 %, boots independent. Exit codes: 0, or 2 for bad input.
    """
    try:
        from truedraft import stats
        from truedraft.cli._compare_input import percentage, read_arms
    except ImportError as error:
        raise InputError(f"plan needs {error.name}, which truedraft[engine] installs") from None
    wanted = percentage(effect, "--effect")
    paths = [Path(name) for name in files]
    spread = stats.spread_of(read_arms(paths, boots_from_files=boots_from_files))
    prompts = [max(2, spread.prompts // 2), spread.prompts, 2 * spread.prompts, 4 * spread.prompts]
    if as_json:
        click.echo(dumped(_json(spread, wanted, power, prompts)))
    else:
        for line in _lines(spread, wanted, power, prompts):
            click.echo(line)
    return 0


def _json(spread: Spread, effect: float, power: float, prompts: Sequence[int]) -> dict[str, Any]:
    return {
        "schema": 1,
        "pilot": {
            "tau": spread.tau,
            "boots": spread.boot_count,
            "prompts": spread.prompts,
            "df": spread.df,
            "sd_between_boots": spread.between**0.5,
            "sd_within_boot": (spread.cells / spread.prompts) ** 0.5,
        },
        "effect": effect,
        "power": power,
        "plans": [
            {
                "prompts": n,
                "boots_per_arm": spread.boots_needed(effect, n, power),
                "boots_per_arm_if_pilot_is_exact": spread.boots_needed(effect, n, power, exact=True),
            }
            for n in prompts
        ],
        "detectable": [
            {"boots_per_arm": boots, "prompts": n, "effect": spread.detectable(boots, n, power)}
            for boots in BOOTS
            for n in prompts
        ],
    }


def _lines(spread: Spread, effect: float, power: float, prompts: Sequence[int]) -> Iterator[str]:
    within = (spread.cells / spread.prompts) ** 0.5
    yield f"pilot   tau {spread.tau:.3f}, {spread.boot_count} boots, {spread.prompts} prompts"
    yield (
        f"spread  {spread.between**0.5:.2%} of tau between boots, {within:.2%} more from what "
        f"{spread.prompts} prompts do in one boot; known from {spread.df} degrees of freedom"
    )
    yield ""
    yield f"boots per arm to see a change of {effect:.2%} with power {power:.0%}, level 5 %"
    heads = [f"{n} prompts" for n in prompts]
    yield _row("", heads, heads)
    for title, exact in (("", False), ("if the pilot's spread is exact", True)):
        needed = [spread.boots_needed(effect, n, power, exact=exact) for n in prompts]
        yield _row(title, [">1000" if n is None else str(n) for n in needed], heads)
    yield ""
    yield f"smallest change seen with power {power:.0%}"
    yield _row("boots per arm", heads, heads)
    for boots in BOOTS:
        found = [spread.detectable(boots, n, power) for n in prompts]
        yield _row(f"{boots:13d}", [">100%" if x is None else f"{x:.1%}" for x in found], heads)
    if spread.df < 4:
        yield f"{spread.boot_count} boots tell little of their spread: a larger pilot lowers these numbers"


def _row(title: str, cells: Sequence[str], heads: Sequence[str]) -> str:
    return title.ljust(32) + "  ".join(cell.rjust(len(head)) for cell, head in zip(cells, heads, strict=True))
