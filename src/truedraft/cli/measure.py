"""`truedraft measure`: acceptance from any engine's own numbers, or from a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truedraft.cli._measure_options import live_options
from truedraft.cli._printable import dumped
from truedraft.cli._records import check_records, write_records
from truedraft.cli._style import Style
from truedraft.contract import InputError


@click.command("measure")
@click.argument("sources", nargs=-1, metavar="[FILE|URL]...")
@click.option("--source", "only", metavar="NAME", help="Read the files as this, whatever they look like.")
@click.option("--before", metavar="FILE", help="An earlier /metrics scrape: only the time between counts.")
@click.option("--k", "width", type=click.IntRange(1, 4096), help="Drafts per round, where a source hides it.")
@click.option("--network", is_flag=True, help="A source may be an address; it is fetched once.")
@live_options
@click.option(
    "-o", "output", type=click.Path(path_type=Path), help="Write acceptance records here, as JSONL."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    sources: tuple[str, ...],
    only: str | None,
    before: str | None,
    width: int | None,
    network: bool,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    server: str | None,
    prompts: Path | None,
    **live: Any,
) -> int:
    """Report acceptance from an engine's logs, counters, benchmark files or responses, with its definition.

    FILE may be - for stdin. What is in a file is found out from its content: records and reports of
    truedraft, vLLM and SGLang logs, /metrics, `vllm bench serve`, responses with per-request counts,
    llama.cpp logs, AIPerf exports. With --server, fixed prompts are sent to a running server instead and its
    counters are read around them; nothing else touches the network. docs/measure.md has formats and
    definitions.
    """
    from truedraft.cli._measure_input import summarise
    from truedraft.cli._measure_text import measure_lines
    from truedraft.measure.sources import SOURCES

    if only is not None and only not in SOURCES:
        raise InputError(f"--source: found {only!r:.80}, expected one of {', '.join(dict.fromkeys(SOURCES))}")
    if output is not None:
        check_records(output, prompts)
        if any(Path(name).resolve() == output.resolve() for name in sources):
            raise InputError(f"{output}: found a source, expected another file for the records")
    if server is not None:
        if sources:
            raise InputError("found files beside --server, expected one or the other")
        from truedraft.cli._measure_live import measure_server

        return measure_server(server, prompts, live, output, as_json, quiet)
    if prompts is not None:
        raise InputError("found --prompts without --server, expected the server to send them to")
    if not sources:
        raise InputError("found no source, expected FILE, URL or --server")
    summary = summarise(sources, only=only, before=before, width=width, network=network, keep_records=True)
    if output is not None:
        summary.warn_of_missing_records()
        write_records(output, summary.records)
    if as_json:
        click.echo(dumped(summary.to_json()))
    else:
        for line in measure_lines(summary, Style.for_stdout()):
            click.echo(line)
    return 0
