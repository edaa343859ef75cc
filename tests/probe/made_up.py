"""A wiring and a sample without models: what a contract scores on a prompt is a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from truedraft.contract import Contract, InputError, Value, override
from truedraft.formats import resolve
from truedraft.probe.replay import TEMPERATURES, Scores
from truedraft.probe.sample import Look, Seconds

SLOTS = 4
Law = Callable[[Contract, int], tuple[float, int]]
"""Mean log-probability and accepted drafts of a contract on the prompt of a number."""


class FakeWiring:
    """`refused`: axis and value -> why it cannot be built."""

    def __init__(self, pair: str = "tiny/dflash", refused: Mapping[tuple[str, Value], str] | None = None):
        self.base = resolve(pair).contract
        self.refused = refused or {}

    def resolve(self, changes: Mapping[str, Value]) -> Any:
        axes = {**self.base.axes, **{axis: override(value) for axis, value in changes.items()}}
        return SimpleNamespace(contract=replace(self.base, axes=axes))

    def wire(self, changes: Mapping[str, Value]) -> Any:
        for change in changes.items():
            if change in self.refused:
                raise InputError(self.refused[change])
        contract = self.resolve(changes).contract
        return SimpleNamespace(contract=contract, drafter=SimpleNamespace(proposals=SLOTS), taps=())


class FakeSample:
    """`phases` counts the looks, the exploration included, so that a law may change with the data."""

    def __init__(self, prompts: int, law: Law) -> None:
        self.prompts, self.law = range(prompts), law
        self.store = SimpleNamespace(taps=())
        self.seconds, self.proposals, self.reach = Seconds(), SLOTS, 100
        self.chosen: list[tuple[int, list[int]]] = []
        self.looks: list[Look] = []

    def take(self, look: Look, on_progress: Any = None) -> None:
        self.looks.append(look)
        self.chosen = [(index, [1, 2]) for index in range(look.first, look.last)]

    def require_anchors(self) -> None:
        assert self.chosen

    def scores(self, wired: Any) -> list[Scores]:
        self.seconds.passes += 1
        out = []
        for index, anchors in self.chosen:
            log_q, accepted = self.law(wired.contract, index)
            hits = np.arange(SLOTS)[None].repeat(len(anchors), 0) < accepted
            shape = (len(anchors), SLOTS, len(TEMPERATURES))
            by_slot = np.linspace(-0.1, 0.1, SLOTS)[None, :, None]  # a law that is alike everywhere is no law
            out.append(Scores(hits, np.broadcast_to(log_q + by_slot, shape).astype(np.float32)))
        return out
