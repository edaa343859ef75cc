"""Which layers' states the engine's taps are, by comparison with all of the target's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from truedraft.contract import Contract
from truedraft.decode.protocols import Batch
from truedraft.trace.file import Trace
from truedraft.trace.history import History
from truedraft.trace.stage import Outcome, Tried

_CHUNK = 256
_NEAR = 0.25
"""Median relative error below which the nearest layer of a 16-bit target counts as the one: neighbours differ
by more than they round.
"""
_SHOWN = 3


def states(target: Any, tokens: Tensor) -> Tensor:
    """The states of all of the target's taps [n, taps, H] for token ids [n]."""
    cache = target.new_cache()
    sequence, pieces = cache.open(), []
    for start in range(0, len(tokens), _CHUNK):
        part = tokens[start : start + _CHUNK]
        positions = torch.arange(start, start + len(part))
        none = torch.empty(0, dtype=torch.int64)
        batch = Batch(part, positions, (0, len(part)), (sequence,), logit_rows=none)
        pieces.append(target.forward(batch, cache)[1])
        cache.commit(sequence, range(len(part)))
    taps = len(target.taps)
    rows = torch.cat(pieces)
    return rows.view(len(rows), taps, -1)


def tap_outcomes(
    trace: Trace, contract: Contract, known: Mapping[int, Tensor], requests: Mapping[int, History]
) -> Iterator[Outcome]:
    """One outcome per tap. `known`: per request the target's states [n, 1 + layers, H], embedding first."""
    expected = contract["taps.layers"]
    errors: list[list[Tensor]] = [[] for _ in expected]
    for request, history in requests.items():
        ours = known[request]
        found = history.context("taps")
        if found is None or not len(ours):
            continue
        seen = history.seen[: len(ours)].nonzero()[:, 0]
        size = ours.shape[2]
        for tap in range(len(expected)):
            theirs = found[seen, tap * size : (tap + 1) * size]
            if theirs.shape[1] == size:
                distance = (theirs[:, None].double() - ours[seen].double()).norm(dim=2)
                errors[tap].append(distance / ours[seen].double().norm(dim=2).clamp_min(1e-9))
    for tap, pieces in enumerate(errors):
        if pieces:
            yield _outcome(tap, expected[tap], torch.cat(pieces), trace)


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
        tried[:_SHOWN],
        tuple(_name(column - 1) for column in explained) if bad else (),
        note,
    )


def _name(layer: int) -> str:
    return "the embedding" if layer < 0 else f"the output of layer {layer}"
