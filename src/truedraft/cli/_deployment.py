"""From the options of `truedraft run` to a `Deployment`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from truedraft.cli._tree_options import require_tree_options
from truedraft.contract import COLDEST, Deployment, InputError

Command = TypeVar("Command", bound=Callable[..., Any])


_OPTIONS = (
    click.option(
        "--temperature",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        help="Of the target's sampling; 0 is greedy.",
    ),
    click.option(
        "--top-k", type=click.IntRange(min=0), default=0, help="Sample from the k best tokens (0: all)."
    ),
    click.option(
        "--top-p", type=float, default=1.0, help="Sample from the fewest tokens with this mass (1: all)."
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of all sampling."),
    click.option(
        "--proposal",
        type=click.Choice(["greedy", "sampled"]),
        help="Drafts are the drafter's argmax (default), or sampled.",
    ),
    click.option(
        "--draft-temperature",
        type=click.FloatRange(min=0),
        help="Of sampled drafts (default: --temperature).",
    ),
    click.option("--draft-top-k", type=click.IntRange(min=0), help="Of sampled drafts (default: --top-k)."),
    click.option("--draft-top-p", type=float, help="Of sampled drafts (default: --top-p)."),
    click.option(
        "--verification",
        type=click.Choice(["greedy", "standard", "block", "exact-match"]),
        help="How drafts are accepted (default: greedy at temperature 0, else standard).",
    ),
)


def sampling_options(command: Command) -> Command:
    """Give a command the options of sampling, proposals and verification."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def deploy(given: Mapping[str, Any], **others: Any) -> Deployment:
    """The deployment that `sampling_options` as given, and the other settings, amount to.

    Raises `InputError` for numbers out of range and for options that contradict each other.
    """
    temperature, top_k, top_p = given["temperature"], given["top_k"], given["top_p"]
    drafting = [given[f"draft_{name}"] for name in ("temperature", "top_k", "top_p")]
    sampled = given["proposal"] == "sampled"
    if not sampled and any(option is not None for option in drafting):
        raise InputError("--draft-temperature, --draft-top-k, --draft-top-p: need --proposal sampled")
    fallback = (temperature, top_k, top_p)
    heat, narrow, nucleus = (old if new is None else new for new, old in zip(drafting, fallback, strict=True))
    _require(math.isfinite(temperature), "--temperature", temperature, "a number >= 0")
    _require(math.isfinite(heat), "--draft-temperature", heat, "a number >= 0")
    _require(0 < top_p <= 1, "--top-p", top_p, "more than 0 and at most 1")
    _require(0 < nucleus <= 1, "--draft-top-p", nucleus, "more than 0 and at most 1")
    threshold = others["confidence_threshold"]
    _require(0 <= threshold <= 1, "--confidence-threshold", threshold, "0 to 1")  # click lets NaN pass
    require_tree_options(sampled, given["verification"], others)
    if sampled and heat < COLDEST:
        raise InputError(
            f"--proposal sampled: found a temperature of {heat:g}, expected at least {COLDEST:g}"
        )
    return Deployment(
        **others,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=given["seed"],
        proposal="sampled" if sampled else "greedy",
        draft_temperature=heat if sampled else 0.0,
        draft_top_k=narrow if sampled else 0,
        draft_top_p=nucleus if sampled else 1.0,
        verification=_verification(given["verification"], temperature, others["tree_budget"] is not None),
    )


def _verification(chosen: str | None, temperature: float, tree: bool) -> Any:
    if chosen is None:
        return "greedy" if temperature < COLDEST else "exact_match" if tree else "standard"
    if (chosen == "greedy") != (temperature < COLDEST):
        wanted = "greedy" if temperature < COLDEST else "standard, block or exact-match"
        raise InputError(f"--verification: found {chosen}, expected {wanted} at temperature {temperature:g}")
    return chosen.replace("-", "_")


def _require(holds: bool, option: str, found: float, expected: str) -> None:
    if not holds:
        raise InputError(f"{option}: found {found}, expected {expected}")
