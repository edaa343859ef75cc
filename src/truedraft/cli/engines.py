"""`truedraft engines`: the releases that `check --engine` knows."""

from __future__ import annotations

import json

import click

from truedraft.formats.engines import ENGINES


@click.command(name="engines")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> int:
    """List the releases whose reading of a pair is known, and what each knowledge rests on."""
    if as_json:
        rows = [
            {
                "engine": str(e.id),
                "name": e.id.name,
                "version": e.id.version,
                "runner": e.id.runner,
                "known_from": e.state,
            }
            for e in ENGINES
        ]
        click.echo(json.dumps({"schema": 1, "engines": rows}, indent=2, ensure_ascii=False))
        return 0
    width = max(len(str(engine.id)) for engine in ENGINES)
    for engine in ENGINES:
        click.echo(f"{str(engine.id).ljust(width)}  {engine.state}")
    return 0
