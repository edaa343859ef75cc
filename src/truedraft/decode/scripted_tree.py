"""A drafter of trees that knows the answer: reaches every node of a tree, and no further."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from truedraft.decode.drafts import Proposal
from truedraft.decode.protocols import Cache, Round
from truedraft.decode.scripted import ScriptedDrafter
from truedraft.decode.tree import Tree, propose_trees


class ScriptedTreeDrafter(ScriptedDrafter):
    """Puts the known continuation on the path to one node of a tree of a given shape; all else is wrong.

    `continuations` as in `ScriptedDrafter`. `shape(sequence, round_number)`: the parents of that round's
    tree. `goal(sequence, round_number)`: the node that the accepted path ends at, -1 for none. Siblings
    differ; the vocabulary must be larger than their number. The budget and the depth asked for only cut the
    tree.
    """

    def __init__(
        self,
        continuations: Sequence[Sequence[int]],
        depth: int,
        vocab_size: int,
        shape: Callable[[int, int], Sequence[int]],
        goal: Callable[[int, int], int],
    ) -> None:
        super().__init__(continuations, depth, vocab_size, lambda _: None)
        self._shape, self._goal = shape, goal

    def propose_tree(self, rounds: Sequence[Round], cache: Cache, budget: int, depth: int) -> Proposal:
        """The script's trees, cut to `budget` nodes and to `depth`."""
        trees = [self._tree(turn, budget).within(depth) for turn in rounds]
        return propose_trees(trees, torch.device("cpu"))

    def _tree(self, turn: Round, budget: int) -> Tree:
        number = self._number(turn)
        parents = tuple(self._shape(turn.sequence, number))[:budget]
        right, node = set(), self._goal(turn.sequence, number)
        while node >= 0:
            right.add(node)
            node = parents[node]
        depths = Tree(parents, parents).depths
        known = self._continuations[turn.sequence][turn.anchor_position + 1 :]
        tokens, siblings = [], dict.fromkeys((-1, *range(len(parents))), 0)
        for node, parent in enumerate(parents):
            truth = known[depths[node] - 1] if depths[node] <= len(known) else 0
            siblings[parent] += 1
            wrong = (truth + siblings[parent]) % self._vocab_size
            tokens.append(truth if node in right else wrong)
        return Tree(tuple(tokens), parents)
