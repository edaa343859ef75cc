"""The answers on disk as training material: sequences, anchors, and statistics fixed at first use."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from settings import (
    FREQUENT_IDS,
    HELD_OUT_EVERY,
    HELD_OUT_PHASE,
    SHARDS,
    STATISTICS,
    TAPS,
    VOCAB_SIZE,
)

STATISTICS_SEQUENCES = 300


@dataclass(frozen=True)
class Answer:
    """One prompt with its answer: ids [n], of which the first `prompt` are given; rows of a shard."""

    name: str
    path: Path
    start: int
    prompt: int
    ids: Tensor

    @property
    def anchors(self) -> Tensor:
        """Positions of answer tokens that another one follows."""
        return torch.arange(self.prompt, len(self.ids) - 1)

    @property
    def held_out(self) -> bool:
        """Whether it is kept from training."""
        return int(self.name.lstrip("t")) % HELD_OUT_EVERY == HELD_OUT_PHASE

    def features(self) -> Tensor:
        """Captured layers [n - 1, layers * hidden] in fp32, the last one after the taps."""
        with safe_open(str(self.path), "pt") as file:
            rows: Tensor = file.get_slice("features")[self.start : self.start + len(self.ids) - 1]
        return rows.float()


def answers(folder: Path = SHARDS) -> list[Answer]:
    """All answers with at least two tokens, in the order of their names."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(str(path), "pt") as file:
            names = json.loads(file.metadata()["names"])
            ids, prompts, lengths = (file.get_tensor(key) for key in ("ids", "prompt_lengths", "lengths"))
        start = 0
        parts = ids.long().split(lengths.tolist())
        for name, part, prompt in zip(names, parts, prompts.tolist(), strict=True):
            if len(part) > prompt + 1:
                found.append(Answer(name, path, start, prompt, part))
            start += len(part) - 1
    return sorted(found, key=lambda answer: answer.name)


@dataclass(frozen=True)
class Statistics:
    """`scale` [taps * hidden]: size of each feature channel; `frequent`: ids in order of frequency."""

    scale: Tensor
    frequent: Tensor


def statistics(found: Sequence[Answer], path: Path = STATISTICS) -> Statistics:
    """Those on disk, or made from the answers at hand and kept: all trainings share them."""
    if not path.exists():
        tokens = torch.cat([answer.ids[answer.prompt :] for answer in found])
        order = torch.bincount(tokens, minlength=VOCAB_SIZE).argsort(descending=True, stable=True)
        squares, count = torch.zeros(()), 0
        for answer in found[:STATISTICS_SEQUENCES]:
            rows = answer.features()[1:]  # the first row's residual stream is thousands of times larger
            squares, count = squares + rows.double().pow(2).sum(0), count + len(rows)
        taps = len(squares) * len(TAPS) // (len(TAPS) + 1)
        scale = (squares / count).sqrt().float()[:taps]
        frequent = order[:FREQUENT_IDS].sort().values
        temporary = path.with_suffix(".new")
        save_file({"scale": scale, "frequent": frequent}, str(temporary))
        os.replace(temporary, path)
    content = load_file(str(path))
    return Statistics(content["scale"], content["frequent"])


def picked(count: int, step: int, batch: int, seed: int) -> list[int]:
    """Numbers of a step's sequences; an epoch visits all in random order."""
    chosen = []
    for index in range(step * batch, (step + 1) * batch):
        epoch, place = divmod(index, count)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        chosen.append(int(torch.randperm(count, generator=generator)[place]))
    return chosen
