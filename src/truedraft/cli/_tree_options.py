"""The options of draft trees, and which others they exclude."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from truedraft.contract import InputError

Command = TypeVar("Command", bound=Callable[..., Any])

MOST_NODES = 4096
"""As in `decode.tree_options`, which needs torch: too large a budget is refused before that is imported."""


def tree_options(command: Command) -> Command:
    """Give a command the options of draft trees."""
    budget = click.option(
        "--tree-budget",
        type=click.IntRange(min=1),
        help="Verify a tree of this many of the drafter's most probable prefixes per round, not a chain.",
    )
    depth = click.option(
        "--tree-depth",
        type=click.IntRange(min=1),
        help="Most drafts in a row in a tree (default: the whole block).",
    )
    return budget(depth(command))


def require_tree_options(sampled: bool, verification: str | None, given: Mapping[str, Any]) -> None:
    """Raise `InputError` for options that draft trees exclude."""
    if given["tree_budget"] is None:
        if given["tree_depth"] is not None:
            raise InputError(f"--tree-depth: found {given['tree_depth']}, expected --tree-budget with it")
        return
    if given["tree_budget"] > MOST_NODES:
        raise InputError(
            f"--tree-budget: found {given['tree_budget']}, expected 1 to {MOST_NODES} nodes per round"
        )
    if given["speculative_tokens"] is not None:
        raise InputError(
            f"--k: found {given['speculative_tokens']} with --tree-budget, expected --tree-depth instead"
        )
    if sampled:
        raise InputError("--proposal: found sampled with --tree-budget, expected greedy")
    if given["confidence_threshold"] > 0:
        raise InputError(
            f"--confidence-threshold: found {given['confidence_threshold']} with --tree-budget, expected 0: "
            "confidence rates one chain of drafts"
        )
    if verification in ("standard", "block"):
        raise InputError(f"--verification: found {verification} with --tree-budget, expected exact-match")
