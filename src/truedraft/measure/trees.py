"""Runs with draft trees: which pairs and settings can have them."""

from __future__ import annotations

from truedraft.contract import BLOCK_FAMILIES, Contract, Deployment, InputError


def require_possible_trees(contract: Contract, run: Deployment) -> None:
    """Raise `InputError` if a run asks for trees of a family without any, or states their depth twice."""
    budget = run.tree_budget
    if budget is None:
        if run.tree_depth is not None:
            raise InputError(f"tree depth: found {run.tree_depth}, expected none without a tree budget")
        return
    if contract.family not in BLOCK_FAMILIES:
        raise InputError(
            f"tree budget: found {budget} with family {contract.family}, which drafts chains only, "
            f"expected one that drafts a block at once ({', '.join(sorted(BLOCK_FAMILIES))})"
        )
    if run.speculative_tokens not in (None, run.tree_depth):
        raise InputError(
            f"speculative tokens: found {run.speculative_tokens} with a tree budget, expected a tree depth"
        )
