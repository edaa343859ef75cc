"""The requests of a trace: which rows of each round are whose, and what is known of every position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from truedraft.contract import InputError
from truedraft.formats.trace_schema import name
from truedraft.trace.file import Trace


@dataclass(frozen=True)
class Turn:
    """One request's part in one round.

    `place`: in the round's batch of `batch` requests. `start`: its first row of the target's. `valid`: its
    rows that hold accepted tokens, the rest hold rejected drafts. `first`: position of the first row.
    """

    round: int
    place: int
    batch: int
    request: int
    start: int
    valid: int
    first: int

    @property
    def rows(self) -> slice:
        """The valid rows, packed."""
        return slice(self.start, self.start + self.valid)

    def share(self, rows: int) -> slice:
        """The request's part of the first `rows` rows of a tensor that has as many of each request."""
        each = rows // self.batch
        return slice(self.place * each, (self.place + 1) * each)

    @property
    def anchor(self) -> int:
        """Position of the anchor, the token behind the last valid row."""
        return self.first + self.valid


def turns(trace: Trace) -> list[Turn]:
    """All turns of a trace, in order."""
    out = []
    for number in range(trace.about.rounds):
        requests, starts = trace.integers(number, "requests"), trace.integers(number, "starts")
        positions = trace.integers(number, "positions")
        rejected = trace.get(number, "rejected")
        for place, request in enumerate(requests):
            start, end = starts[place], starts[place + 1]
            lost = 0 if rejected is None else int(rejected[place])
            valid, first = end - start - lost, positions[start]
            if not valid:
                continue
            for row, position in enumerate(positions[start : start + valid]):
                if position != first + row:
                    where = f"{trace.path}#{name(number, 'positions')}"
                    raise InputError(
                        f"{where}: found {position} in row {start + row}, expected {first + row}, one behind"
                        " the row before it"
                    )
            out.append(Turn(number, place, len(requests), request, start, valid, first))
    return out


class History:
    """What a trace shows of one request. Position p is row p of every tensor.

    `tokens` [n]: ids, -1 where none was seen. `seen` [n]: positions whose rows went through the drafter here.
    `known`: leading positions whose token is known; `extent`: leading positions each of which is known or was
    seen, beyond which no step can look. `taps` [m, ΣH]: what the target makes of the first m
    tokens, once it has run over them.
    """

    def __init__(self, trace: Trace, own: list[Turn]) -> None:
        self._trace, self.turns = trace, own
        prompt = trace.about.prompts[own[0].request] or ()
        size = max(len(prompt), *(turn.anchor + 1 for turn in own))
        self.tokens = torch.full((size,), -1, dtype=torch.int64)
        self.tokens[: len(prompt)] = torch.tensor(prompt, dtype=torch.int64)
        self.seen = torch.zeros(size, dtype=torch.bool)
        for turn in own:
            found = trace.get(turn.round, "tokens")
            assert found is not None
            self._note(turn, found[turn.rows].long())
            self.seen[turn.first : turn.anchor] = True
        unknown = (self.tokens < 0).nonzero()
        self.known = int(unknown[0]) if len(unknown) else size
        unseen = (~self.seen[self.known :]).nonzero()
        self.extent = self.known + int(unseen[0]) if len(unseen) else size
        self.taps: Tensor | None = None
        self._gathered: dict[tuple[object, ...], Tensor | None] = {}

    def _note(self, turn: Turn, found: Tensor) -> None:
        """Keep the tokens of a turn, which may repeat known ones but not contradict them."""
        known = self.tokens[turn.first : turn.anchor]
        wrong = ((known >= 0) & (found >= 0) & (known != found)).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"{self._trace.path}#{name(turn.round, 'tokens')}: found {int(found[row])} at position "
                f"{turn.first + row}, expected {int(known[row])} as the prompt or an earlier round has it"
            )
        self.tokens[turn.first : turn.anchor] = torch.where(found >= 0, found, known)

    def anchor_token(self, turn: Turn) -> int | None:
        """The anchor's token, `None` where a later round would have to show it and there is none."""
        token = int(self.tokens[turn.anchor])
        return None if token < 0 else token

    def context(self, *parts: object) -> Tensor | None:
        """A tensor of the target's rows by position, [extent, …]; zeros where `seen` is false."""
        if parts not in self._gathered:
            pieces = [self._trace.get(turn.round, *parts) for turn in self.turns]
            out = None
            for turn, piece in zip(self.turns, pieces, strict=True):
                if piece is None:
                    out = None
                    break
                if out is None:
                    out = piece.new_zeros(self.extent, *piece.shape[1:])
                rows = piece[turn.rows]
                out[turn.first : turn.anchor] = rows[: max(self.extent - turn.first, 0)]
            self._gathered[parts] = out
        return self._gathered[parts]


def histories(trace: Trace) -> dict[int, History]:
    """The requests of a trace that have a turn, by number."""
    grouped: dict[int, list[Turn]] = {}
    for turn in turns(trace):
        grouped.setdefault(turn.request, []).append(turn)
    return {request: History(trace, own) for request, own in grouped.items()}
