"""`truedraft check`: what is wrong with a pair, or will go wrong in an engine, seen from its files alone."""

from __future__ import annotations

from os.path import realpath
from pathlib import Path

import click

from truedraft.checks import SEVERITIES, Severity, Subject, Usage, run_checks
from truedraft.cli._check_input import boot_lines, pair_of, prompt_texts, records_of
from truedraft.cli._check_output import FORMATS, Page, places_of
from truedraft.cli._numbers import FiniteRange
from truedraft.cli._style import Style
from truedraft.formats.engines import find_engines, read_engine, read_kv_layout, siblings


@click.command(name="check")
@click.argument("target")
@click.argument("draft", required=False)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME:VERSION[:RUNNER]",
    help="Also say what this release would do with the pair (vllm:0.32:v2); `truedraft engines` lists all.",
)
@click.option("--set", "overrides", multiple=True, metavar="AXIS=VALUE", help="Override an axis first.")
@click.option("--k", type=click.IntRange(1, 4096), help="Drafts per round that the engine is asked for.")
@click.option("--thinking/--no-thinking", default=None, help="Whether the served model thinks.")
@click.option("--context", type=click.IntRange(1), help="Longest sequence that is served, in tokens.")
@click.option("--temperature", type=FiniteRange(0, 1000), help="Temperature of the served requests.")
@click.option("--draft-sampling/--draft-argmax", default=None, help="Whether the engine samples its drafts.")
@click.option(
    "--boot-log", type=Path, help="Explain the layer ids in an engine's start-up log (- for stdin)."
)
@click.option("--kv-layout", type=Path, help="Check what a KV zeroer clears (docs/checks/TD431.md).")
@click.option(
    "--prompts", type=Path, help="Also check the prompts of a measurement (as `run --prompt-file`)."
)
@click.option("--records", type=Path, help="Also check the records of a measurement (JSON lines).")
@click.option("--weights", is_flag=True, help="Also read tensor values: NaN, zero, constant, copies.")
@click.option(
    "--network", is_flag=True, help="TARGET or DRAFT may be a hub id; headers are fetched by range."
)
@click.option("--select", multiple=True, metavar="CODE", help="Only rules whose code begins so.")
@click.option("--ignore", multiple=True, metavar="CODE", help="No rules whose code begins so.")
@click.option("--pedantic", is_flag=True, help="Also what is legal but unusual.")
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 if a finding is at least as grave.",
)
@click.option("--format", "layout", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--quiet", is_flag=True, help="One line per finding.")
def command(
    target: str,
    draft: str | None,
    engines: tuple[str, ...],
    overrides: tuple[str, ...],
    k: int | None,
    thinking: bool | None,
    context: int | None,
    temperature: float | None,
    draft_sampling: bool | None,
    boot_log: Path | None,
    kv_layout: Path | None,
    prompts: Path | None,
    records: Path | None,
    weights: bool,
    network: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    pedantic: bool,
    fail_on: Severity | str,
    layout: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Find broken conventions of a pair in its files, and in what engines would make of them.

    TARGET and DRAFT are directories or names of bundled pairs (tiny, tiny/dspark), with --network also hub
    ids (ORG/NAME[@REVISION]; HF_ENDPOINT and HF_TOKEN are honoured). Only configs, tokenizer files and the
    headers of tensor files are read. Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 bad input, 3
    the drafter is of a family that cannot be checked.
    """
    releases = dict.fromkeys(engine for text in engines for engine in find_engines(text))
    with pair_of(target, draft, overrides, network=network, weights=weights, quiet=quiet) as pair:
        others = dict.fromkeys(s for e in releases for s in siblings(e) if s not in releases)
        known = pair.contract is not None
        subject = Subject(
            pair,
            readings=tuple(read_engine(engine, pair, k) for engine in releases) if known else (),
            siblings=tuple(read_engine(engine, pair, k) for engine in others) if known else (),
            usage=Usage(k, thinking, context, temperature, draft_sampling),
            weights=weights,
            boot_log=() if boot_log is None else boot_lines(boot_log),
            kv_layout=None if kv_layout is None else read_kv_layout(Path(realpath(kv_layout))),
            prompts=() if prompts is None else prompt_texts(prompts),
            records=() if records is None else records_of(records),
        )
        report = run_checks(subject, select=select, ignore=ignore, pedantic=pedantic)
        names = tuple(str(engine.id) for engine in releases)
        page = Page(report, Style.for_stdout(), quiet, places_of(pair), names)
    for line in FORMATS["json" if as_json else layout](page):
        click.echo(line)
    if fail_on != "never" and report.reaches(fail_on):  # type: ignore[arg-type]
        return 1
    return 3 if report.undecided else 0
