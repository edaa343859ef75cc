"""Options of `truedraft measure --server`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from truedraft.cli._numbers import FiniteRange

_OPTIONS = (
    click.option("--server", metavar="URL", help="Measure this OpenAI-compatible server (http://host:8000)."),
    click.option("--prompts", type=click.Path(path_type=Path), help="As `run --prompt-file`; for --server."),
    click.option("--model", help="Name of the served model (default: the first that the server lists)."),
    click.option(
        "--api",
        type=click.Choice(["chat", "completions"]),
        default="chat",
        show_default=True,
        help="Prompts as messages through the chat template, or as they are.",
    ),
    click.option("--concurrency", type=click.IntRange(1, 256), default=1, show_default=True),
    click.option("--temperature", type=FiniteRange(0, 1000), default=0.0, show_default=True),
    click.option("--seed", type=click.IntRange(min=0), help="Sent with every request."),
    click.option("--max-new-tokens", type=click.IntRange(min=1), default=256, show_default=True),
    click.option("--thinking/--no-thinking", default=None, help="Sent as enable_thinking to the template."),
    click.option("--repeat-prefix", is_flag=True, help="Send all prompts twice: cold, then warm."),
    click.option("--cache-salt", is_flag=True, help="A fresh vLLM cache_salt, so that cold is cold."),
    click.option("--timeout", type=FiniteRange(1, 86400), default=600.0, show_default=True),
    click.option("--api-key-env", metavar="NAME", help="Environment variable with the server's key."),
)


def live_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with these options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
