"""Options that `probe` and `doctor` share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from truedraft.cli._numbers import FiniteRange
from truedraft.contract import InputError


def _seconds(value: float) -> float:
    """Refuse nan, which passes every comparison of a range."""
    if math.isnan(value):
        raise click.BadParameter("found nan, expected a number of seconds")
    return value


_OPTIONS = (
    click.option("--prompt", "texts", multiple=True, metavar="TEXT", help="A prompt; may be repeated."),
    click.option(
        "--prompts",
        "--prompt-file",
        "prompt_file",
        type=click.Path(path_type=Path),
        help="A text (one prompt), or .jsonl with text or tokens. Better 24 or more prompts.",
    ),
    click.option("--max-new-tokens", type=click.IntRange(min=1), help="Tokens to generate per prompt."),
    click.option("--set", "overrides", multiple=True, metavar="AXIS=VALUE", help="Override an axis first."),
    click.option(
        "--axes",
        "axes",
        multiple=True,
        metavar="AXIS[,…]",
        help="Only these axes or groups (rope,taps.layers).",
    ),
    click.option("--try", "tries", multiple=True, metavar="AXIS=VALUE", help="One more value to try."),
    click.option(
        "--budget-s",
        "budget",
        type=FiniteRange(0, 1e6),
        callback=lambda _context, _option, value: _seconds(value),
        default=300,
        show_default=True,
        help="Seconds after which no further pass begins.",
    ),
    click.option(
        "--memory-mb",
        type=click.IntRange(0, 2**30),
        default=1024,
        show_default=True,
        help="Features held in memory (the rest lies in a temporary file); a quarter as much for a pass.",
    ),
    click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True),
    click.option("--k", "speculative_tokens", type=click.IntRange(min=1), help="Length of a chain's drafts."),
    click.option("--threads", type=click.IntRange(1, 256), help="CPU threads for torch."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout."),
)


def probe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the shared options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def split_axes(axes: tuple[str, ...]) -> tuple[str, ...]:
    """Axes given one by one or behind commas. Raises `InputError` for options that name none."""
    found = tuple(dict.fromkeys(name.strip() for item in axes for name in item.split(",") if name.strip()))
    if axes and not found:
        raise InputError(
            "--axes: found no name, expected axes or groups; `truedraft contract` lists all axes"
        )
    return found
