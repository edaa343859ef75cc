"""Options of `diagnose` and `collect`: what is known of a deployment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from truedraft.cli._numbers import FiniteRange

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--target", metavar="DIR", help="The target of the pair, or a bundled pair (tiny/dspark)."),
    click.option("--draft", metavar="DIR", help="The drafter, unless it is in the target's checkpoint."),
    click.option(
        "--engine",
        "engines",
        multiple=True,
        metavar="NAME:VERSION[:RUNNER]",
        help="The engine that serves the pair; `truedraft engines` lists those that are known.",
    ),
    click.option("--set", "overrides", multiple=True, metavar="AXIS=VALUE", help="Override an axis first."),
    click.option("--k", "width", type=click.IntRange(1, 4096), help="Drafts per round that are asked for."),
    click.option("--thinking/--no-thinking", default=None, help="Whether the served model thinks."),
    click.option("--context", type=click.IntRange(1), help="Longest sequence that is served, in tokens."),
    click.option("--temperature", type=FiniteRange(0, 1000), help="Of the served requests."),
    click.option("--draft-sampling/--draft-argmax", default=None, help="Whether drafts are sampled."),
    click.option("--weights", is_flag=True, help="Also read the drafter's tensor values."),
    click.option("--prompts", type=click.Path(path_type=Path), help="The prompts that were sent."),
    click.option(
        "--log",
        "logs",
        multiple=True,
        type=click.Path(path_type=Path),
        help="An engine's log from its start.",
    ),
    click.option(
        "--reference",
        "references",
        multiple=True,
        metavar="FILE",
        help="Figures of a good run on the same prompts (as FILE), such as `truedraft run --records`.",
    ),
    click.option("--expect", type=FiniteRange(1, 4097), metavar="TAU", help="Acceptance length expected."),
    click.option("--probe", "probe_file", type=click.Path(path_type=Path), help="JSON of `truedraft probe`."),
    click.option(
        "--arm",
        "arms",
        multiple=True,
        metavar="NAME=FILE",
        help="Figures with one thing changed: other-runner, eager, tp1, cache-off, k1, … (repeatable).",
    ),
    click.option(
        "--fact",
        "facts",
        multiple=True,
        metavar="QUESTION=ANSWER",
        help="What is known otherwise; `truedraft diagnose --questions` lists them.",
    ),
    click.option("--network", is_flag=True, help="FILE may be an address, the pair hub ids."),
    click.option("--quiet", is_flag=True, help="No progress on stderr."),
)


def case_options(command: Command) -> Command:
    """Add all options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
