"""Steps that all drafters share: the target's states, and `fc`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from truedraft.trace.file import Trace
from truedraft.trace.history import History, Turn
from truedraft.trace.pieces import Pieces, Twist
from truedraft.trace.stage import Compared, Stage


def fusion_stage(trace: Trace) -> Stage:
    """`fc` and the norms before it, fed with the engine's taps."""

    def compare(_history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        taps, features = trace.get(turn.round, "taps"), trace.get(turn.round, "features")
        if taps is not None and features is not None:
            yield Compared("", features[turn.rows], pieces.fusion.project(taps[turn.rows]))

    return Stage("fusion", compare, ("fusion.tap_norm", "fusion.concat_norm"))


def head_stage(trace: Trace) -> Stage:
    """The output head, fed with the engine's hidden states: its largest logits, by their own ids."""

    def compare(_history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        for call in range(trace.about.proposals):
            hidden = trace.get(turn.round, "heads", call, "hidden")
            values = trace.get(turn.round, "heads", call, "values")
            ids = trace.get(turn.round, "heads", call, "ids")
            if hidden is None or values is None or ids is None:
                return
            rows = turn.share(len(hidden))
            ours = over_target(pieces, pieces.head.logits(hidden[rows]), trace.about.draft_ids)
            expected = ours.gather(1, ids[rows].clamp(max=ours.shape[1] - 1).long())
            # ids that no draft id stands for are -inf on both sides
            shown = ~(torch.isneginf(values[rows]) & torch.isneginf(expected))
            yield Compared("", values[rows].where(shown, 0.0), expected.where(shown, 0.0))

    axes = ("head.source", "head.multiplier", "head.softcap", "head.vocabulary_map")
    return Stage("head", compare, axes)


def over_target(pieces: Pieces, logits: Tensor, draft_ids: bool) -> Tensor:
    """Logits [n, draft ids] as the engine's columns are: by target id, or as they are."""
    where = pieces.head.target_ids
    if draft_ids or where is None:
        return logits
    size = pieces.contract.target.vocab_size
    return logits.new_full((len(logits), size), -torch.inf).index_copy(1, where, logits)
