"""What draft trees need of the target, the drafter and the settings; the rest is refused by name."""

from __future__ import annotations

from typing import Any

from truedraft.contract import InputError
from truedraft.decode.protocols import Drafter, Target, TreeDrafter
from truedraft.decode.sampling import Sampling

MOST_NODES = 4096
"""Largest tree: each node is a row of the target's forward; the paper's largest budget is 1024."""


def require_trees(
    budget: int,
    depth: int,
    offered: int,
    target: Target[Any],
    drafter: Drafter[Any] | None,
    draft_sampling: Sampling,
    verification: str,
    confidence_threshold: float,
) -> TreeDrafter:
    """The drafter, if trees can be drafted, verified and rolled back with all of this; else `InputError`.

    `offered`: drafts that the drafter makes in a row, the greatest depth.
    """

    def refuse(expected: str) -> InputError:
        return InputError(f"tree budget: found {budget}, expected {expected}")

    if isinstance(budget, bool) or not isinstance(budget, int) or not 1 <= budget <= MOST_NODES:
        raise refuse(f"1 to {MOST_NODES} nodes")
    if drafter is None:
        raise refuse("none without a drafter")
    if not isinstance(drafter, TreeDrafter):
        name = type(drafter).__name__
        raise refuse(f"none: {name} drafts no trees (block drafters do: DFlash, DSpark)")
    if not getattr(target, "supports_trees", False):  # a target that does not say so is not trusted with them
        raise refuse(
            f"none: {_name(target)} targets keep state that follows one chain of rows, not a tree's branches"
        )
    if not 1 <= depth <= offered:
        raise InputError(f"tree depth (--tree-depth): found {depth}, expected 1 to {offered}")
    if confidence_threshold > 0:
        raise refuse("none with a confidence threshold: confidence rates one chain of drafts")
    if not draft_sampling.greedy:
        raise refuse("none with sampled drafts: a tree holds the most probable prefixes")
    if verification not in ("greedy", "exact_match"):
        raise refuse(f"none with {verification} verification: sampled output needs exact_match")
    return drafter


def _name(target: object) -> str:
    """The model type where there is one, else the adapter's name."""
    config = getattr(getattr(target, "model", None), "config", None)
    return str(getattr(config, "model_type", type(target).__name__))
