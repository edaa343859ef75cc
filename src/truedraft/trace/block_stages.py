"""The steps of a block drafter, in the order in which a round goes through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from truedraft.models.readout import Readout
from truedraft.models.visibility import block_visibility
from truedraft.trace.file import Trace
from truedraft.trace.history import History, Turn
from truedraft.trace.pieces import NO_NORM, ONES, PLAIN, Pieces, Twist, attention
from truedraft.trace.stage import Compared, Stage
from truedraft.trace.target_stages import fusion_stage, head_stage

ROPE = (
    "rope.theta",
    "rope.scaling",
    "rope.attention_factor",
    "rope.rotary_dims",
    "rope.layout",
    "rope.placement",
)
WINDOWS = ("attention.window", "attention.window_rule", "attention.causal", "attention.scale")


def block_stages(trace: Trace) -> list[Stage]:
    """All steps that this trace can show."""
    steps = _Steps(trace)
    return [
        fusion_stage(trace),
        Stage("context positions", steps.context_positions),
        Stage("context rows written", steps.written, sharded=True),
        Stage(
            "context values",
            steps.values,
            ("fusion.output_norm", "fusion.input_norm_on_context"),
            sharded=True,
        ),
        Stage("context keys", steps.keys, ("backbone.qk_norm", *ROPE), _key_guesses, sharded=True),
        Stage("block width", steps.width),
        Stage("block tokens", steps.tokens, ("block.mask_token_id", "block.anchor_fill")),
        Stage("block positions", steps.positions, ("block.position_offset",)),
        Stage("embedding", steps.embedding, ("embedding.source", "embedding.scale")),
        Stage("query and key", steps.projected, ROPE, _key_guesses, sharded=True),
        Stage("attention", steps.attention, WINDOWS, _row_guesses, sharded=True),
        Stage("layer output", steps.layer, ("backbone.activation", "attention.gate"), sharded=True),
        Stage("final norm", steps.final_norm),
        Stage("slots", steps.slots, ("block.first_slot",)),
        head_stage(trace),
        Stage("drafts", steps.drafts, ("markov.previous", "head.softcap_order")),
    ]


def _key_guesses(pieces: Pieces) -> Sequence[tuple[str, Twist]]:
    norms = [(f"layer {j}'s k_norm", Twist(norm_of=j)) for j in range(len(pieces.layers))]
    weightless = [("no k_norm", Twist(norm_of=NO_NORM)), ("a k_norm of ones", Twist(norm_of=ONES))]
    moved = [(f"positions {by:+d}", Twist(shift=by)) for by in (-1, 1, -2, 2)]
    return [*norms, *weightless, *moved, ("no rotation", Twist(rotated=False))]


def _row_guesses(pieces: Pieces) -> Sequence[tuple[str, Twist]]:
    cached: list[tuple[str, Twist]] = [
        ("rows from the cache not visible", Twist(cached="hidden")),
        ("rows from the cache zero", Twist(cached="zero")),
    ]
    for layer in range(len(pieces.layers)):
        cached.append((f"rows from the cache with layer {layer}'s k_norm", Twist(norm_of=layer)))
    return [
        ("the last context row missing", Twist(rows=-1)),
        ("the anchor's own row visible", Twist(rows=1)),
        *cached,
    ]


class _Steps:
    """Each method yields the parts of one step in one turn; a step that the trace lacks yields nothing."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def _block(self, turn: Turn, *parts: object) -> Tensor | None:
        """The rows of this turn's block in a tensor of the draft model's call."""
        found = self._trace.get(turn.round, "calls", 0, *parts)
        width = self._trace.about.width or 0
        if found is None or len(found) < turn.batch * width:
            return None
        return found[turn.share(turn.batch * width)]

    def _rows(self, turn: Turn, *parts: object) -> Tensor | None:
        found = self._trace.get(turn.round, *parts)
        return None if found is None else found[turn.rows]

    def context_positions(
        self, _history: History, turn: Turn, _pieces: Pieces, _twist: Twist
    ) -> Iterator[Compared]:
        found = self._rows(turn, "context", "positions")
        if found is not None:
            yield Compared("", found.long(), torch.arange(turn.first, turn.anchor))

    def written(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        for layer in range(len(pieces.layers)):
            found = self._rows(turn, "context", "written", layer)
            window = pieces.contract["attention.window"][layer]
            if found is not None:
                # rows that no block from here on can see may be left out
                near = max(turn.first, turn.anchor - window + 1 if window else 0) - turn.first
                yield Compared(f"layer {layer}", found[near:], torch.ones_like(found[near:]))

    def values(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        yield from self._context(turn, pieces, PLAIN, 1)

    def keys(self, _history: History, turn: Turn, pieces: Pieces, twist: Twist) -> Iterator[Compared]:
        yield from self._context(turn, pieces, twist, 0)

    def _context(self, turn: Turn, pieces: Pieces, twist: Twist, which: int) -> Iterator[Compared]:
        features, positions = self._rows(turn, "features"), torch.arange(turn.first, turn.anchor)
        for layer in range(len(pieces.layers)):
            found = self._rows(turn, "context", ("keys", "values")[which], layer)
            if found is not None and features is not None:
                yield Compared(
                    f"layer {layer}", found, pieces.context(layer, features, positions, twist)[which]
                )

    def width(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        found = self._block(turn, "positions")
        if found is not None:
            expected = torch.tensor([[pieces.contract["block.width"]]])
            yield Compared("", torch.tensor([[len(found)]]), expected)

    def tokens(self, history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        found = self._block(turn, "ids")
        if found is None:
            return
        anchor = history.anchor_token(turn)
        expected = torch.full((len(found),), pieces.contract["block.mask_token_id"])
        first = 0
        if pieces.contract["block.anchor_fill"] == "token":
            first = 1 if anchor is None else 0
            expected[0] = anchor or 0
        yield Compared("", found.long()[first:, None], expected[first:, None])

    def positions(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        found = self._block(turn, "positions")
        if found is not None:
            first = turn.anchor + pieces.contract["block.position_offset"]
            yield Compared("", found.long()[:, None], first + torch.arange(len(found))[:, None])

    def embedding(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        found, ids = self._block(turn, "embedded"), self._block(turn, "ids")
        if found is not None and ids is not None:
            yield Compared("", found, pieces.embedding(ids.long()))

    def _entering(self, turn: Turn, layer: int) -> Tensor | None:
        return self._block(turn, "layer", layer - 1) if layer else self._block(turn, "embedded")

    def projected(self, _history: History, turn: Turn, pieces: Pieces, twist: Twist) -> Iterator[Compared]:
        positions = self._block(turn, "positions")
        for layer in range(len(pieces.layers)):
            entering = self._entering(turn, layer)
            found = [self._block(turn, part, layer) for part in ("query", "key")]
            if entering is not None and positions is not None:
                ours = pieces.project(layer, entering, positions.long(), None, twist)
                for theirs, mine in zip(found, ours, strict=False):
                    if theirs is not None:
                        yield Compared(f"layer {layer}", theirs, mine)

    def attention(self, history: History, turn: Turn, pieces: Pieces, twist: Twist) -> Iterator[Compared]:
        contract = pieces.contract
        rows = turn.anchor + twist.rows + (contract["context.end"] == "through_anchor")
        for layer in range(len(pieces.layers)):
            found = self._block(turn, "attention", layer)
            own = [self._block(turn, part, layer) for part in ("query", "key", "value")]
            context = _context_of(history, pieces, layer, rows, twist)
            if found is None or context is None or any(part is None for part in own):
                continue
            keys, values = context
            query, key, value = (part for part in own if part is not None)
            first, mask = block_visibility(
                turn.anchor,
                rows,
                len(query),
                contract["attention.window"][layer],
                contract["attention.window_rule"][layer],
                contract["attention.causal"][layer],
            )
            if twist.cached == "hidden" and not bool(history.seen[:rows].all()):
                if mask is None:
                    mask = torch.ones(len(query), rows - first + len(query), dtype=torch.bool)
                mask[:, : rows - first] &= history.seen[first:rows]
            every = torch.cat([keys[first:], key]), torch.cat([values[first:], value])
            ours = attention(query, *every, mask, contract["attention.scale"][layer])
            yield Compared(f"layer {layer}", found, ours)

    def layer(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        for layer in range(len(pieces.layers)):
            entering, attended = self._entering(turn, layer), self._block(turn, "attention", layer)
            found = self._block(turn, "layer", layer)
            if entering is not None and attended is not None and found is not None:
                yield Compared(f"layer {layer}", found, pieces.finish(layer, entering, attended, None))

    def final_norm(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        found, stream = self._block(turn, "hidden"), self._block(turn, "layer", len(pieces.layers) - 1)
        if found is not None and stream is not None:
            yield Compared("", found, pieces.normed(stream))

    def slots(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        hidden, read = self._block(turn, "hidden"), self._read(turn)
        if hidden is not None and read is not None:
            assert isinstance(pieces.head, Readout)
            first = pieces.head.first_slot
            yield Compared("", read, hidden[first : first + len(read)])

    def _read(self, turn: Turn) -> Tensor | None:
        """The rows of this turn that the output head was given."""
        found = self._trace.get(turn.round, "heads", 0, "hidden")
        return None if found is None else found[turn.share(len(found))]

    def drafts(self, _history: History, turn: Turn, pieces: Pieces, _twist: Twist) -> Iterator[Compared]:
        """Each draft, given the engine's drafts before it: ours, or the engine's where ours is as likely."""
        drafts, slots = self._trace.get(turn.round, "drafts"), self._read(turn)
        ids = self._block(turn, "ids")
        if drafts is None or slots is None or ids is None or len(slots) != drafts.shape[1]:
            return
        found = drafts[turn.place].long()
        yield Compared("", found[:, None], chosen(pieces, slots, ids[:1].long(), found)[:, None])


def _context_of(
    history: History, pieces: Pieces, layer: int, rows: int, twist: Twist
) -> tuple[Tensor, Tensor] | None:
    """Keys and values [rows, kv heads, D] of a layer's context: the engine's where they were seen, and where
    a cache brought them ours, from our target's states.
    """
    keys, values = (history.context("context", part, layer) for part in ("keys", "values"))
    if keys is None or values is None or rows > len(keys):
        return None
    unseen = (~history.seen[:rows]).nonzero()[:, 0]
    if not len(unseen):
        return keys[:rows], values[:rows]
    if history.taps is None or int(unseen[-1]) >= len(history.taps):
        return None
    keys, values = keys[:rows].clone(), values[:rows].clone()
    if twist.cached != "zero":
        features = pieces.fusion.project(history.taps[unseen])
        keys[unseen], values[unseen] = pieces.context(layer, features, unseen, Twist(norm_of=twist.norm_of))
    return keys, values


def chosen(pieces: Pieces, slots: Tensor, anchor: Tensor, found: Tensor) -> Tensor:
    """The likeliest draft of each slot [n, H] as target id [n], given `found` before it; near ties are
    decided as `found` does.
    """
    readout = pieces.head
    assert isinstance(readout, Readout)
    logits = readout.logits(slots)
    if readout.markov is not None:
        follow = pieces.contract["markov.previous"] == "previous_token"
        state = readout.markov.start(1)
        corrected = []
        for slot in range(len(slots)):
            previous = anchor if slot == 0 or not follow else found[slot - 1 : slot]
            row, state = readout.corrected(logits[slot : slot + 1], previous, slots[slot : slot + 1], state)
            corrected.append(row)
        logits = torch.cat(corrected)
    return decided(logits, readout.target_ids, found)


def decided(logits: Tensor, target_ids: Tensor | None, found: Tensor) -> Tensor:
    """Target id of each row's largest logit [n, draft ids], or `found` where that one is nearly as large."""
    best, draft = logits.max(-1)
    ids = draft if target_ids is None else target_ids[draft]
    columns = found if target_ids is None else _draft_ids(target_ids, found)
    known = (columns >= 0) & (columns < logits.shape[-1])
    theirs = logits.gather(1, columns.clamp(0, logits.shape[-1] - 1)[:, None])[:, 0]
    near = known & (best - theirs <= 1e-3 * best.abs().clamp_min(1.0))
    return torch.where(near, found, ids)


def _draft_ids(target_ids: Tensor, found: Tensor) -> Tensor:
    """Draft id of each target id, -1 where there is none."""
    same = target_ids == found[:, None]
    return torch.where(same.any(1), same.int().argmax(1), -1)
