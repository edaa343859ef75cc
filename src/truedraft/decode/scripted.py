"""A drafter that knows the answer and errs on purpose.

Random weights accept nothing and so prove nothing about rollback. This drafter proposes the target's own
continuation with an error at a chosen slot of every round, so that every accepted length occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from truedraft.decode.cache import KVCache
from truedraft.decode.drafts import Proposal
from truedraft.decode.protocols import Cache, Round
from truedraft.decode.sampling import GREEDY, Sampling


class ScriptedDrafter:
    """Proposes the known continuation with one wrong token per round.

    `continuations[s]`: all tokens of the s-th opened sequence, prompt included, as plain decoding gives them;
    past its end zeros are proposed. `error_slot(round_number)`: slot whose draft is made wrong, or None.
    """

    def __init__(
        self,
        continuations: Sequence[Sequence[int]],
        proposals: int,
        vocab_size: int,
        error_slot: Callable[[int], int | None],
    ) -> None:
        self.proposals = proposals
        self.has_confidence = False
        self.needs_anchor_features = False
        self._continuations = [list(tokens) for tokens in continuations]
        self._vocab_size = vocab_size
        self._error_slot = error_slot
        self._anchors: dict[int, list[int]] = {}

    def new_cache(self) -> KVCache:
        """A cache without layers: only counts sequences. The script starts anew."""
        self._anchors = {}
        return KVCache(0, 0, 0)

    def propose(self, rounds: Sequence[Round], cache: Cache, sampling: Sampling = GREEDY) -> Proposal:
        """The known continuation after each anchor, wrong at the chosen slot; `sampling` is ignored."""
        rows = []
        for turn in rounds:
            number = self._number(turn)
            known = self._continuations[turn.sequence][turn.anchor_position + 1 :][: self.proposals]
            drafts = known + [0] * (self.proposals - len(known))
            slot = self._error_slot(number)
            if slot is not None:
                drafts[slot] = (drafts[slot] + 1) % self._vocab_size
            rows.append(drafts)
        return Proposal(torch.tensor(rows), (self.proposals,) * len(rows))

    def _number(self, turn: Round) -> int:
        """How many rounds of its sequence came before."""
        anchors = self._anchors.setdefault(turn.sequence, [])
        if turn.anchor_position not in anchors:
            anchors.append(turn.anchor_position)
        return anchors.index(turn.anchor_position)
