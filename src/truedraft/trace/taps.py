"""Which layers' states the engine's taps are, by comparison with all of the target's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from truedraft.contract import Contract
from truedraft.decode import feed
from truedraft.trace.file import Trace
from truedraft.trace.history import History
from truedraft.trace.stage import SHOWN, Outcome, Tried

_ROWS = 256
"""Rows of one forward, all of whose states are held."""

_NEAR = 0.25
"""Median relative error below which the nearest layer of a 16-bit target counts as the one: neighbours differ
by more than they round.
"""


def states(target: Any, tokens: Tensor) -> Tensor:
    """The states of all of the target's taps [n, taps, H] for token ids [n]."""
    cache = target.new_cache()
    pieces = [found for _, found in feed(target, cache, cache.open(), tokens, rows=_ROWS)]
    taps = len(target.taps)
    size = target.embedding.shape[1]
    return torch.cat(pieces).view(-1, taps, size) if pieces else torch.zeros(0, taps, size)


class TapErrors:
    """Errors of every tap against every state of the target, request by request."""

    def __init__(self, trace: Trace, contract: Contract) -> None:
        self._trace, self._expected = trace, contract["taps.layers"]
        self._errors: list[list[Tensor]] = [[] for _ in self._expected]

    def add(self, history: History, ours: Tensor) -> None:
        """Compare a request's rows with the target's states [n, 1 + layers, H], embedding first."""
        found = history.context("taps")
        seen = history.seen[: len(ours)].nonzero()[:, 0]
        if found is None or not len(seen):
            return
        states, size = ours[seen].double(), ours.shape[2]
        for tap, errors in enumerate(self._errors):
            theirs = found[seen, tap * size : (tap + 1) * size]
            distance = (theirs[:, None].double() - states).norm(dim=2) / states.norm(dim=2).clamp_min(1e-9)
            errors.append(torch.nan_to_num(distance, nan=torch.inf, posinf=torch.inf))

    def outcomes(self) -> Iterator[Outcome]:
        """One outcome per tap of which a row was compared."""
        for tap, errors in enumerate(self._errors):
            if errors:
                yield _outcome(tap, self._expected[tap], torch.cat(errors), self._trace)


def _outcome(tap: int, expected: int, errors: Tensor, trace: Trace) -> Outcome:
    """From the errors [rows, 1 + layers] of one tap against every state."""
    fits = errors <= trace.tolerance
    median = errors.median(0).values
    if trace.coarse:  # deep states of 16-bit targets drift by more than kernels do
        nearest = int(median.argmin())
        fits[:, nearest] |= bool(median[nearest] < _NEAR)
    own = expected + 1
    order = [int(column) for column in median.argsort()]
    tried = tuple(Tried(_name(column - 1), float(median[column])) for column in order if column != own)
    bad = int((~fits[:, own]).sum())
    explained = [column for column in order if bool(fits[:, column].all()) and column != own]
    note = ""
    if bad and explained:
        note = f"equals {_name(explained[0] - 1)}, expected {_name(expected)}"
    return Outcome(
        "taps",
        f"tap {tap}",
        len(errors),
        bad,
        float(errors[:, own].max()),
        tried[:SHOWN],
        tuple(_name(column - 1) for column in explained) if bad else (),
        note,
    )


def _name(layer: int) -> str:
    return "the embedding" if layer < 0 else f"the output of layer {layer}"
