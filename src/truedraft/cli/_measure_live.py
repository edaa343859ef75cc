"""`truedraft measure --server`: prompts from a file, progress, the report of the passes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from truedraft.cli._measure_text import measure_lines, tau_text
from truedraft.cli._printable import dumped, printable
from truedraft.cli._progress import bar
from truedraft.cli._prompts import gather
from truedraft.cli._records import write_records
from truedraft.cli._style import Style
from truedraft.contract import InputError
from truedraft.measure.server import Address, Ask, Pass, Repeats, Settings, run_server
from truedraft.measure.server.run import model_of


def measure_server(
    server: str, prompts: Path | None, live: dict[str, Any], output: Path | None, as_json: bool, quiet: bool
) -> int:
    """Send the prompts, print what the server's figures say of them."""
    if prompts is None:
        raise InputError("found --server without --prompts, expected a prompt file")
    address = Address.parse(server, key=_key(live.pop("api_key_env")))
    asks = [ask_of(entry, live["api"]) for entry in gather((), prompts)[0]]
    model = live.pop("model") or model_of(address)
    settings = Settings(model=model, **live)
    total, done = len(asks) * (2 if settings.repeat_prefix else 1), [0]
    with bar("asking the server", quiet) as step:

        def on_reply() -> None:
            done[0] += 1
            if step is not None:
                step(done[0], total)

        passes = run_server(address, asks, settings, on_reply)
    if output is not None:
        for done_pass in passes:
            done_pass.summary.warn_of_missing_records()
        write_records(output, [record for done in passes for record in done.summary.records])
    if as_json:
        click.echo(dumped(report(passes, address, settings)))
    else:
        for line in lines(passes, settings, Style.for_stdout()):
            click.echo(line)
    return 0


def ask_of(entry: dict[str, Any], api: str) -> Ask:
    """A prompt of a prompt file. Raises `InputError` where the interface cannot take it."""
    name = str(entry["id"])
    category = entry.get("category")
    tokens = entry.get("tokens")
    if tokens is None:
        if not isinstance(entry["text"], str) or not entry["text"]:
            raise InputError(f"prompt {name:.80}: found {entry['text']!r:.80}, expected text")
        return Ask(name, entry["text"], category=category if isinstance(category, str) else "")
    if api == "chat":
        raise InputError(f"prompt {name:.80}: found tokens, expected text or --api completions")
    whole = isinstance(tokens, list) and all(isinstance(t, int) and not isinstance(t, bool) for t in tokens)
    if not whole or not tokens:
        raise InputError(f"prompt {name:.80}: expected tokens to be a list of whole numbers")
    return Ask(name, tokens=tuple(tokens), category=category if isinstance(category, str) else "")


def _key(name: str | None) -> str:
    if name is None:
        return ""
    key = os.environ.get(name)
    if not key:
        raise InputError(f"--api-key-env: the environment variable {name!r:.80} is not set")
    return key


def report(passes: list[Pass], address: Address, settings: Settings) -> dict[str, Any]:
    """The JSON object: the first pass's figures, as every source's, and the server's part beside them."""
    first = passes[0].summary.to_json()
    first["records"] = sum(len(done.summary.records) for done in passes)
    first["warnings"] = [warning for done in passes for warning in done.summary.warnings]
    first["server"] = {
        "url": str(address),
        "model": settings.model,
        "api": settings.api,
        "concurrency": settings.concurrency,
        "temperature": settings.temperature,
        "seed": settings.seed,
        "max_new_tokens": settings.max_new_tokens,
        "thinking": settings.thinking,
        "passes": [done.to_json() for done in passes],
    }
    if len(passes) == 2:
        first["server"]["repeats"] = Repeats(*passes).to_json()
    return first


def lines(passes: list[Pass], settings: Settings, style: Style) -> Iterator[str]:
    """The page: one block per pass, and cold against warm."""
    thinking = {None: "as the server's template says", True: "on", False: "off"}[settings.thinking]
    yield style.bold(f"server       {printable(settings.model)}") + (
        f"  {settings.api}, concurrency {settings.concurrency}, temperature {settings.temperature:g}, "
        f"thinking {thinking}"
    )
    for done in passes:
        asked, cached = done.total("prompt_tokens"), done.total("cached_tokens")
        answered = done.total("output_tokens")
        yield ""
        yield style.bold(f"pass {done.name}") + (
            f"  {len(done.replies) - len(done.failed)} of {len(done.replies)} requests "
            f"in {done.seconds:.1f} s, {_told(asked)} prompt tokens, {_told(cached)} of them cached, "
            f"{_told(answered)} generated"
        )
        yield from measure_lines(done.summary, style)
    if len(passes) == 2:
        cold, warm = (tau_text(done.summary.acceptance) for done in passes)
        yield ""
        yield style.bold("cold, warm") + f"   {cold}, {warm}: one boot, an estimate only"
        yield from _repeat_lines(Repeats(*passes))


_TITLES = {
    "tau": "tau",
    "seconds": "seconds",
    "seconds_to_first_token": "to first token",
    "cached_tokens": "cached tokens",
}


def _repeat_lines(repeats: Repeats) -> Iterator[str]:
    """Mean over prompts of warm - cold."""
    for name, found in repeats.differences.items():
        if found is None:
            yield f"             {_TITLES[name]}: no prompt has it in both passes"
            continue
        spread = "" if found.sd is None else f" (sd {found.sd:.3f})"
        yield (
            f"             {_TITLES[name]}: {found.cold:.3f}, {found.warm:.3f}; warm - cold per prompt "
            f"{found.difference:+.3f}{spread}, {found.prompts} prompts"
        )
    same, pairs = repeats.same_text
    yield f"             same text: {same} of {pairs}"


def _told(count: int | None) -> str:
    return "?" if count is None else str(count)
