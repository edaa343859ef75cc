"""Greedy decoding of many prompts side by side; a finished sequence makes room for the next prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from truedraft.decode.protocols import Batch
from truedraft.models.target import HFTarget


@dataclass
class Response:
    """One prompt and what the target answers.

    `tokens` ends with a stop token unless it is as long as allowed. `features`: the taps [n, taps * hidden],
    in fp16, of every row but the last token's, which is never run.
    """

    id: str
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)
    sequence: int = -1

    @property
    def features(self) -> Tensor:
        """Taps of the prompt's rows and of all new tokens but the last."""
        return torch.cat(self.rows)


@torch.inference_mode()
def greedy(
    target: HFTarget, prompts: Iterable[tuple[str, list[int]]], width: int, longest: int
) -> Iterator[Response]:
    """Answers in the order in which they end; at most `width` at a time, `longest` new tokens each."""
    waiting, cache, running = iter(prompts), target.new_cache(), list[Response]()
    while True:
        while len(running) < width and (entry := next(waiting, None)) is not None:
            response = Response(*entry)
            response.sequence = cache.open()
            running.append(response)
            ids = torch.tensor(response.prompt)
            last = torch.tensor([len(ids) - 1])
            batch = Batch(ids, torch.arange(len(ids)), (0, len(ids)), (response.sequence,), logit_rows=last)
            _take(target, batch, cache, [response])
        for response in running:
            if _ended(target, response, longest):
                cache.close(response.sequence)
                yield response
        running = [response for response in running if not _ended(target, response, longest)]
        if not running:
            return
        ids = torch.tensor([response.tokens[-1] for response in running])
        positions = torch.tensor([cache.length(response.sequence) for response in running])
        starts = tuple(range(len(running) + 1))
        batch = Batch(ids, positions, starts, tuple(response.sequence for response in running))
        _take(target, batch, cache, running)


def _take(target: HFTarget, batch: Batch, cache: object, responses: list[Response]) -> None:
    """Run a batch and give every sequence its next token and its features."""
    logits, taps = target.forward(batch, cache)  # type: ignore[arg-type]
    following = logits.argmax(-1).tolist()
    half = taps.half()
    if not torch.isfinite(half).all():
        raise ValueError("a tap does not fit fp16")
    for index, response in enumerate(responses):
        rows = batch.rows_of(index)
        cache.commit(response.sequence, range(rows.stop - rows.start))  # type: ignore[attr-defined]
        response.rows.append(half[rows].clone())
        response.tokens.append(following[index])


def _ended(target: HFTarget, response: Response, longest: int) -> bool:
    return response.tokens[-1] in target.stop_token_ids or len(response.tokens) >= longest
