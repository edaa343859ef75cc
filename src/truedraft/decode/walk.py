"""Verification of a draft tree: the path that stays, and the target's token behind it.

The target makes its own token at the anchor: its argmax, or a draw from its law. If a child carries that
token, the same happens there, until no child does. Every token that comes out is the target's own, given the
tokens before it, so that the output is the target's whatever the tree holds and however it was grown. At a
node whose children carry the tokens C, a child stays with probability p(C): no rule that keeps the law
accepts more often, because the children are fixed before the target is asked.
"""

from __future__ import annotations

from collections.abc import Callable

from truedraft.decode.tree import Tree


def walk(tree: Tree, choose: Callable[[int], int]) -> tuple[tuple[int, ...], int]:
    """The nodes of the accepted path, and the target's token behind them.

    `choose(row)`: the target's token behind a row of [anchor, nodes]; asked once per row of the path.
    """
    child: dict[tuple[int, int], int] = {}
    for node, place in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        child.setdefault(place, node)
    path: list[int] = []
    at = -1
    while True:
        token = choose(at + 1)
        found = child.get((at, token))
        if found is None:
            return tuple(path), token
        path.append(found)
        at = found
