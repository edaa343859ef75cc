"""`diff_trace()`: from a trace and its pair to the first step at which the engine goes another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from truedraft.contract import CHAIN_FAMILIES, SCHEMA, Contract, InputError, UndecidedError
from truedraft.formats.stage_layout import is_staged
from truedraft.formats.trace_schema import name
from truedraft.measure.teacher_forced import round_at
from truedraft.probe import Wiring, tapped
from truedraft.trace.block_stages import block_stages
from truedraft.trace.chain_stages import chain_stages
from truedraft.trace.explain import Explainer
from truedraft.trace.file import About, Trace
from truedraft.trace.history import History, histories
from truedraft.trace.stage import Outcome
from truedraft.trace.taps import TapErrors, states

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class TraceDiff:
    """What a trace shows against the contract of its pair.

    `outcomes`: per step and part, in the order in which a round goes through them. `rounds`: turns whose
    drafts truedraft could make from its own target's features; `equal`: those in which they are the engine's.
    `unseen`: leading context rows that did not go through the drafter while the trace was made. `absent`:
    steps of which the trace shows nothing.
    """

    contract: Contract
    about: About
    outcomes: tuple[Outcome, ...]
    rounds: int
    equal: int
    unseen: int
    absent: tuple[str, ...]

    @property
    def first(self) -> Outcome | None:
        """The first part that differs."""
        return next((outcome for outcome in self.outcomes if outcome.differs), None)

    def to_json(self) -> dict[str, Any]:
        """The object that `truedraft trace diff --json` prints."""
        first = self.first
        return {
            "schema": SCHEMA,
            "contract_hash": self.contract.hash,
            "engine": self.about.engine,
            "version": self.about.version,
            "runner": self.about.runner,
            "method": self.about.method,
            "first": None if first is None else _json(first),
            "stages": [_json(outcome) for outcome in self.outcomes],
            "turns": self.rounds,
            "turns_with_equal_drafts": self.equal,
            "rows_not_seen": self.unseen,
            "steps_not_seen": list(self.absent),
        }


def _json(outcome: Outcome) -> dict[str, Any]:
    return {
        "stage": outcome.stage,
        "part": outcome.part,
        "rows": outcome.rows,
        "unequal": outcome.unequal,
        "largest_error": outcome.worst if outcome.worst < float("inf") else None,
        "explained_by": list(outcome.explained),
        "nearest": [
            {"candidate": tried.what, "error": tried.error if tried.error < float("inf") else None}
            for tried in outcome.tried
        ],
        "note": outcome.note,
    }


def diff_trace(
    trace: Trace, wiring: Wiring, model: Any, max_rows: int = 4096, on_progress: Progress | None = None
) -> TraceDiff:
    """Recompute every step of a trace, each fed with the engine's own input of it.

    `model`: the target as transformers loads it. `max_rows`: positions of each request whose target states
    are recomputed. Raises `InputError` for a pair that is not the trace's.
    """
    contract = wiring.resolve({}).contract
    _refuse(trace, contract)
    layers = range(-1, contract.target.layers)
    target = tapped(contract, model, [(layer, contract["taps.state"][0]) for layer in layers])
    wiring.attach(target.embedding, target.head)
    requests = histories(trace)
    if not requests:
        raise InputError(f"{trace.path}: found no round with rows, expected at least one")
    taps = TapErrors(trace, contract)
    with torch.inference_mode():
        for done, history in enumerate(requests.values()):
            _refuse_tokens(trace, history, contract)
            ours = states(target, history.tokens[: min(history.known, max_rows)])
            columns = torch.tensor([layer + 1 for layer in contract["taps.layers"]])
            history.taps = ours[:, columns].flatten(1)
            with _fitting(trace, "taps"):
                taps.add(history, ours)
            if on_progress is not None:
                on_progress("target", done + 1, len(requests))
    explainer = Explainer(wiring, (target.embedding, target.head), tuple(requests.values()), trace.tolerance)
    stages = (chain_stages if explainer.pieces.chain else block_stages)(trace)
    outcomes = list(taps.outcomes())
    absent = [] if outcomes else ["taps"]
    for done, stage in enumerate(stages):
        # of several ranks each holds some of the heads
        with _fitting(trace, stage.name):
            found = explainer.outcomes(stage) if trace.about.ranks == 1 or not stage.sharded else []
            found = [outcome for outcome in found if outcome.rows]
        outcomes += found
        absent += [] if found else [stage.name]
        if on_progress is not None:
            on_progress("steps", done + 1, len(stages))
    with _fitting(trace, "drafts"):
        rounds, equal = _replayed(trace, wiring, requests)
    unseen = sum(history.turns[0].first for history in requests.values())
    if not outcomes:
        raise UndecidedError(f"{trace.path}: found no step that can be recomputed, expected taps or more")
    return TraceDiff(contract, trace.about, tuple(outcomes), rounds, equal, unseen, tuple(absent))


@contextmanager
def _fitting(trace: Trace, step: str) -> Iterator[None]:
    """Tensors of a damaged trace, or of another pair, as one line that names the step."""
    try:
        yield
    except (RuntimeError, IndexError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{trace.path}: {step}: the tensors do not fit this pair ({reason:.200})") from None


def _refuse(trace: Trace, contract: Contract) -> None:
    chain = trace.about.method == "eagle3"
    if is_staged(contract) or (contract.family in CHAIN_FAMILIES) != chain:
        raise InputError(
            f"{trace.path}: found a trace of {trace.about.method} ({trace.about.draft}), "
            f"expected one of a drafter of family {contract.family}"
        )
    wide = len(contract["taps.layers"]) * contract.target.hidden_size
    farthest = max(4 * contract.target.max_positions, 2**17)
    for number in range(trace.about.rounds):
        taps = trace.shape(number, "taps")
        if taps is not None and taps[1] != wide:
            where = f"{trace.path}#{name(number, 'taps')}"
            raise InputError(f"{where}: found {list(taps)}, expected rows of {wide}")
        for parts in (("positions",), *(("calls", call, "positions") for call in range(trace.calls))):
            positions, where = trace.get(number, *parts), f"{trace.path}#{name(number, *parts)}"
            if positions is None or not len(positions):
                continue
            for found in (int(positions.max()), int(positions.min())):
                if not -farthest < found < farthest:
                    raise InputError(f"{where}: found position {found}, expected one below {farthest}")
    if trace.layers not in (0, contract["backbone.layers"]):
        raise InputError(
            f"{trace.path}: found {trace.layers} draft layers (of {trace.about.draft}), "
            f"expected {contract['backbone.layers']}"
        )


def _refuse_tokens(trace: Trace, history: History, contract: Contract) -> None:
    size = contract.target.vocab_size
    if int(history.tokens.max()) >= size:
        raise InputError(f"{trace.path}: found token {int(history.tokens.max())}, expected ids below {size}")


def _replayed(trace: Trace, wiring: Wiring, requests: Mapping[int, History]) -> tuple[int, int]:
    """Turns whose drafts were made anew from the target's own states, and those in which they are equal."""
    wired = wiring.wire({})
    rounds = equal = 0
    with torch.inference_mode():
        for history in requests.values():
            taps = history.taps
            assert taps is not None
            cache: Any = wired.drafter.new_cache()
            sequence = cache.open()
            for turn in history.turns:
                token, drafts = history.anchor_token(turn), trace.get(turn.round, "drafts")
                end = turn.anchor + wired.drafter.needs_anchor_features
                if drafts is None or token is None or end > len(taps):
                    continue
                if end <= cache.length(sequence):  # preempted and computed anew: positions begin again
                    cache = wired.drafter.new_cache()
                    sequence = cache.open()
                have = cache.length(sequence)
                fresh = round_at(wired.drafter, sequence, history.tokens, taps, have, turn.anchor)
                proposal = wired.drafter.propose([fresh], cache)
                theirs = drafts[turn.place].long()
                ours = proposal.tokens.flatten()[: len(theirs)]
                rounds += 1
                equal += bool(torch.equal(ours, theirs[: len(ours)]))
    return rounds, equal
