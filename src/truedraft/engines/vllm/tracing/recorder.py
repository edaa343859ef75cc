"""Keeps the tensors of some rounds and writes them as one file (`truedraft.formats.trace_schema`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from truedraft.formats.trace_schema import LOGITS, METADATA, SCHEMA, name


class Recorder:
    """Tensors of up to `rounds` rounds and about `most` bytes.

    `facts`: entries of the metadata that are known from the start. `done`: called once nothing more is kept.
    The file is written when the number of rounds doubles and at the end, so that a server that is killed
    leaves one.
    """

    def __init__(
        self, path: Path, rounds: int, most: int, facts: dict[str, Any], done: Callable[[int, int], None]
    ) -> None:
        self.path = path
        self.recording = False
        self.rounds = 0
        self._limit, self._most, self._size = rounds, most, 0
        self._facts, self._done = facts, done
        self._tensors: dict[str, Any] = {}
        self._round: dict[str, Any] = {}
        self._requests: dict[str, int] = {}
        self._prompts: list[list[int] | None] = []
        self._counts: dict[str, int] = {}
        self._written = 0

    def begin(self, requests: list[str], prompts: list[list[int] | None]) -> None:
        """A round begins, of these requests in the order of their rows."""
        if self.rounds >= self._limit or self._size >= self._most:
            return
        import torch

        for request, prompt in zip(requests, prompts, strict=True):
            if request not in self._requests:
                self._requests[request] = len(self._prompts)
                self._prompts.append(prompt)
        self.recording = True
        self._counts, self._round = {}, {}  # a round that the host broke off has left some
        self.add(torch.tensor([self._requests[request] for request in requests]), "requests")

    def add(self, tensor: Any, *parts: object) -> None:
        """Keep a copy of a tensor of this round, on the CPU; `None` is not kept."""
        if self.recording and tensor is not None:
            import torch

            copy = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            self._round[name(self.rounds, *parts)] = copy

    def next_call(self, kind: str) -> int:
        """Number of the call of this kind (`calls`, `heads`) that begins in this round."""
        self._counts[kind] = self._counts.get(kind, -1) + 1
        return self._counts[kind]

    def call(self, kind: str) -> int:
        """Number of the latest call of this kind; -1 before the first."""
        return self._counts.get(kind, -1)

    def add_head(self, hidden: Any, logits: Any, ids: str) -> None:
        """Keep a use of the output head. `ids`: whose ids the logits' columns are."""
        if self.recording and logits is not None:
            number = self.next_call("heads")
            values, where = logits.float().topk(min(LOGITS, logits.shape[-1]))
            self.add(hidden, "heads", number, "hidden")
            self.add(values, "heads", number, "values")
            self.add(where, "heads", number, "ids")
            self._facts["logit_ids"] = ids

    def end(self, drafts: Any) -> None:
        """The round ends with these drafts [B, K]."""
        if not self.recording:
            return
        self.add(drafts, "drafts")
        self.recording = False
        self.rounds += 1
        self._size += sum(copy.numel() * copy.element_size() for copy in self._round.values())
        self._tensors |= self._round
        self._round = {}
        full = self.rounds >= self._limit or self._size >= self._most
        if full or self.rounds >= 2 * self._written:
            self.write()
        if full:
            self.drop()
            self._done(self.rounds, self._size)

    def drop(self) -> None:
        """Record no more, and free what is in memory."""
        self.recording, self._limit, self._written = False, 0, self.rounds
        self._tensors, self._round = {}, {}

    def write(self) -> None:
        """Write the file, or leave the one that is there."""
        from safetensors.torch import save

        if self.rounds == self._written:
            return
        requests = [
            {"id": request, "prompt": self._prompts[index]} for request, index in self._requests.items()
        ]
        about = {"schema": SCHEMA, **self._facts, "rounds": self.rounds, "requests": requests}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            partial.write_bytes(save(self._tensors, metadata={METADATA: json.dumps(about)}))
            os.replace(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)
        self._written = self.rounds
