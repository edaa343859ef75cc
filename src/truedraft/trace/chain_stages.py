"""The steps of an EAGLE-3 chain: one call for all context rows, then one row per further draft."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from truedraft.models.visibility import chain_visibility
from truedraft.trace.block_stages import ROPE, decided
from truedraft.trace.file import Trace
from truedraft.trace.history import History, Turn
from truedraft.trace.pieces import Pieces, Twist, attention
from truedraft.trace.stage import Compared, Stage
from truedraft.trace.target_stages import fusion_stage, head_stage


def chain_stages(trace: Trace) -> list[Stage]:
    """All steps that this trace can show."""
    steps = _Steps(trace)
    return [
        fusion_stage(trace),
        Stage("row tokens", steps.tokens, ("chain.token",)),
        Stage("row positions", steps.positions),
        Stage("row features", steps.features, ("chain.feedback",)),
        Stage("embedding", steps.embedding, ("embedding.source", "embedding.scale")),
        Stage("query and key", steps.projected, (*ROPE, "backbone.qk_norm"), sharded=True),
        Stage(
            "attention",
            steps.attention,
            ("attention.window", "attention.window_rule", "attention.scale"),
            sharded=True,
        ),
        Stage(
            "layer output", steps.layer, ("chain.norm_before_residual", "backbone.activation"), sharded=True
        ),
        Stage("final norm", steps.final_norm),
        head_stage(trace),
        Stage("drafts", steps.drafts, ("head.vocabulary_map",)),
    ]


class _Steps:
    """Each method yields the parts of one step in one turn; a step that the trace lacks yields nothing."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def _calls(self) -> range:
        return range(min(self._trace.about.proposals, self._trace.calls))

    def _part(self, call: int) -> str:
        return "context rows" if call == 0 else "chain rows"

    def _own(self, turn: Turn, call: int, *parts: object) -> Tensor | None:
        """The turn's rows in a tensor of a call: all valid ones of the first, one of each further."""
        found = self._trace.get(turn.round, "calls", call, *parts)
        if found is None or len(found) < (turn.rows.stop if call == 0 else turn.batch):
            return None
        return found[turn.rows] if call == 0 else found[turn.place : turn.place + 1]

    def _drafts(self, turn: Turn) -> Tensor | None:
        found = self._trace.get(turn.round, "drafts")
        return None if found is None else found[turn.place].long()

    def tokens(self, history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        drafts = self._drafts(turn)
        same = int(pieces.contract["chain.token"] == "same")
        known = history.tokens[: turn.anchor + 1]
        for call in self._calls():
            found = self._own(turn, call, "ids")
            if found is None:
                continue
            if call == 0:
                expected = known[turn.first + 1 - same : turn.anchor + 1 - same]
            elif drafts is None:
                continue
            else:
                chain = torch.cat([known[-1:], drafts])
                expected = chain[call - same : call + 1 - same]
            seen = expected >= 0
            yield Compared(self._part(call), found.long()[seen, None], expected[seen, None])

    def _placed(self, turn: Turn, call: int) -> Tensor:
        """Positions of a call's rows, which are their features'."""
        if call == 0:
            return torch.arange(turn.first, turn.anchor)
        return torch.tensor([turn.anchor - 1 + call])

    def positions(self, history: History, turn: Turn, _pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        """Distances between rows count: rotary attention does not see a shift of all of them."""
        first = history.turns[0]
        start = self._own(first, 0, "positions")
        offset = 0 if start is None else int(start[0]) - first.first
        for call in self._calls():
            found = self._own(turn, call, "positions")
            if found is not None:
                expected = self._placed(turn, call) + offset
                yield Compared(self._part(call), found.long()[:, None], expected[:, None])

    def features(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        fused = self._trace.get(turn.round, "features")
        for call in self._calls():
            found = self._own(turn, call, "features")
            if found is None:
                continue
            if call == 0:
                expected = None if fused is None else fused[turn.rows]
            else:
                after = pieces.contract["chain.feedback"] == "post_norm"
                last = ("hidden",) if after else ("layer", len(pieces.layers) - 1)
                before = self._own(turn, call - 1, *last)
                expected = None if before is None else before[-1:]
            if expected is not None:
                yield Compared(self._part(call), found, expected)

    def embedding(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        for call in self._calls():
            found, ids = self._own(turn, call, "embedded"), self._own(turn, call, "ids")
            if found is not None and ids is not None:
                yield Compared("", found, pieces.embedding(ids.long()))

    def _entering(self, turn: Turn, call: int, layer: int) -> Tensor | None:
        return self._own(turn, call, "layer", layer - 1) if layer else self._own(turn, call, "embedded")

    def projected(self, _history: History, turn: Turn, pieces: Pieces, twist: Twist) -> Iterator[Compared]:
        for call in self._calls():
            features, placed = self._own(turn, call, "features"), self._own(turn, call, "positions")
            for layer in range(len(pieces.layers)):
                entering = self._entering(turn, call, layer)
                if entering is None or features is None or placed is None:
                    continue
                ours = pieces.project(layer, entering, placed.long(), features, twist)
                for part, mine in zip(("query", "key"), ours, strict=False):
                    theirs = self._own(turn, call, part, layer)
                    if theirs is not None:
                        yield Compared(f"layer {layer}", theirs, mine)

    def attention(self, history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        contract = pieces.contract
        if not bool(history.seen[: turn.anchor].all()):
            return
        for layer in range(len(pieces.layers)):
            keys, values = (history.context("calls", 0, part, layer) for part in ("key", "value"))
            if keys is None or values is None:
                continue
            every = [keys[: turn.anchor], values[: turn.anchor]]
            for call in self._calls():
                found, query = (self._own(turn, call, part, layer) for part in ("attention", "query"))
                own = [self._own(turn, call, part, layer) for part in ("key", "value")]
                if found is None or query is None or own[0] is None or own[1] is None:
                    break
                start, count = turn.first, len(query)
                if call:
                    every = [torch.cat([a, b]) for a, b in zip(every, own, strict=True) if b is not None]
                    start = turn.anchor - 1 + call
                rule = contract["attention.window_rule"][layer]
                origin = turn.anchor - 1 if rule == "anchor" and call else None
                window = contract["attention.window"][layer]
                first, mask = chain_visibility(start, count, window, origin)
                reach = [part[first : start + count] for part in every]
                ours = attention(query, reach[0], reach[1], mask, contract["attention.scale"][layer])
                yield Compared(f"layer {layer}, {self._part(call)}", found, ours)

    def layer(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        for call in self._calls():
            features = self._own(turn, call, "features")
            for layer in range(len(pieces.layers)):
                entering, attended = (
                    self._entering(turn, call, layer),
                    self._own(turn, call, "attention", layer),
                )
                found = self._own(turn, call, "layer", layer)
                if entering is not None and attended is not None and found is not None:
                    ours = pieces.finish(layer, entering, attended, features)
                    yield Compared(f"layer {layer}", found, ours)

    def final_norm(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        for call in self._calls():
            stream = self._own(turn, call, "layer", len(pieces.layers) - 1)
            found = self._own(turn, call, "hidden")
            if found is not None and stream is not None:
                yield Compared("", found, pieces.normed(stream))

    def drafts(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        drafts = self._drafts(turn)
        if drafts is None:
            return
        for call in self._calls():
            hidden = self._trace.get(turn.round, "heads", call, "hidden")
            if hidden is None or len(hidden) != turn.batch:
                return
            logits = pieces.head.logits(hidden[turn.place : turn.place + 1])
            ours = decided(logits, pieces.head.target_ids, drafts[call : call + 1])
            yield Compared(f"draft {call + 1}", drafts[call : call + 1, None], ours[:, None])
