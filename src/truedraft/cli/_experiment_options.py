"""Options of `truedraft experiment`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from truedraft.cli._numbers import FiniteRange

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--engine", type=click.Choice(["vllm"]), default="vllm", show_default=True),
    click.option(
        "--arms",
        required=True,
        metavar="NAME,NAME…",
        help="native (as vLLM ships), fix, fix:AXIS+AXIS (axes or groups), each alone or with /no-block-drop "
        "or /no-prefix-cache.",
    ),
    click.option(
        "--out", required=True, type=click.Path(path_type=Path), help="Folder for results, records and logs."
    ),
    click.option(
        "--boots", type=click.IntRange(1, 1000), default=3, show_default=True, help="Fresh starts per arm."
    ),
    click.option("--python", help="Interpreter of vLLM's environment (default: this one)."),
    click.option(
        "--k",
        "speculative_tokens",
        type=click.IntRange(1, 4096),
        help="Drafts per round (default: trained).",
    ),
    click.option(
        "--runner",
        type=click.Choice(["auto", "v1", "v2"]),
        default="auto",
        show_default=True,
        help="vLLM's model runner; v2 without a GPU runs under Triton's interpreter, slowly.",
    ),
    click.option("--prompt", "texts", multiple=True, metavar="TEXT", help="A prompt; may be repeated."),
    click.option(
        "--prompt-file",
        "--prompts",
        type=click.Path(path_type=Path),
        help="A text (one prompt), or .jsonl with text or tokens.",
    ),
    click.option(
        "--max-new-tokens",
        type=click.IntRange(min=1),
        help="Tokens to generate per prompt (default: 128, or what a bundled pair states).",
    ),
    click.option(
        "--repeat",
        type=click.IntRange(1, 100),
        default=1,
        show_default=True,
        help="Passes over the prompts per boot.",
    ),
    click.option("--prefix-caching", is_flag=True, help="With vLLM's prefix cache (default: without)."),
    click.option("--seed", type=int, default=0, show_default=True, help="Of the order of boots."),
    click.option(
        "--set", "overrides", multiple=True, metavar="AXIS=VALUE", help="For arms that fix: override an axis."
    ),
    click.option(
        "--measured",
        type=click.Path(path_type=Path),
        help="For arms that fix: `truedraft probe --json`.",
    ),
    click.option("--engine-args", metavar="JSON", help="Further arguments of vLLM's LLM, a JSON object."),
    click.option(
        "--boot-timeout",
        type=FiniteRange(1, 10**6),
        default=1800.0,
        show_default=True,
        help="Seconds after which a boot is ended.",
    ),
)


def experiment_options(command: Command) -> Command:
    """Give a command the options of an experiment."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
