"""Texts, anchors and features of a probe, made when they are needed, the same for every hypothesis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from truedraft.contract import InputError
from truedraft.decode import Decoder, feed
from truedraft.models import HFTarget
from truedraft.probe.evidence import PromptScores
from truedraft.probe.features import FeatureStore
from truedraft.probe.narrow import few_ids
from truedraft.probe.replay import MEMORY, Task, Text, score
from truedraft.probe.wiring import Wired

if TYPE_CHECKING:
    from truedraft.models import StatefulTarget

EXPLORED_PROMPTS, EXPLORED_ANCHORS = 8, 8
FIRST_PROMPTS, FIRST_ANCHORS = 8, 8
ANCHORS, MORE_ANCHORS = 16, 32
"""Prompts and anchors per prompt: of the exploration, of the first look; of most looks, of the last."""

GENERATED_TOGETHER = 8


@dataclass(frozen=True)
class Look:
    """How much is looked at: prompts `first` to `last - 1` of the random order, `anchors` places in each."""

    first: int
    last: int
    anchors: int


def exploration(prompts: int) -> Look | None:
    """Prompts set apart for finding a good wiring, a third at most; `None` where there are too few."""
    count = min(EXPLORED_PROMPTS, prompts // 3)
    return Look(0, count, EXPLORED_ANCHORS) if count > 1 else None


def looks(prompts: int) -> list[Look]:
    """Looks at the other prompts: twice as many at each further one, then more anchors in each.

    Prompts bring more than anchors do: anchors of one text resemble each other.
    """
    explored = exploration(prompts)
    first = 0 if explored is None else explored.last
    rest = prompts - first
    sizes = [FIRST_PROMPTS * 2**n for n in range(32) if FIRST_PROMPTS * 2**n < rest]
    counts = [(size, ANCHORS) for size in (*sizes, rest)] + [(rest, MORE_ANCHORS)]
    counts[0] = (counts[0][0], FIRST_ANCHORS)
    return [Look(first, first + size, anchors) for size, anchors in counts]


@dataclass
class Seconds:
    """Where the time of a probe went, in seconds, and what for.

    `tokens` generated in `generation`, `rows` of text in `features` (each runs through the target once),
    drafter `passes`, and `anchors` drafted at in all of them.
    """

    generation: float = 0.0
    features: float = 0.0
    drafter: float = 0.0
    tokens: int = 0
    rows: int = 0
    passes: int = 0
    anchors: int = 0


@dataclass
class Sample:
    """The prompts in random order, and what is known of their texts so far.

    `target` must tap what `store` keeps. `given`: the prompts are whole texts, nothing is generated.
    `memory`: bytes that a drafter's pass may take. `proposals`: slots behind each anchor with known truth.
    """

    target: HFTarget | StatefulTarget
    store: FeatureStore
    prompts: Sequence[tuple[int, ...]]
    max_new_tokens: int
    seed: int
    given: bool = False
    memory: int = MEMORY
    proposals: int = 1
    texts: list[Text] = field(default_factory=list)
    seconds: Seconds = field(default_factory=Seconds)
    chosen: list[tuple[int, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stored: list[int] | None = None
        self._ids: torch.Tensor | None = None
        self._order = np.random.default_rng([self.seed, 0]).permutation(len(self.prompts)).tolist()

    def reuse(self, other: Sample) -> None:
        """Take the texts of a sample that has all prompts; the store is shared, in that sample's order."""
        if len(other.texts) < len(self.prompts):
            raise ValueError(f"found {len(other.texts)} texts, expected all {len(self.prompts)}")
        place = {prompt: index for index, prompt in enumerate(other._order)}
        self._stored = [place[prompt] for prompt in self._order]
        self.texts = [other.texts[index] for index in self._stored]

    @property
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The target's embedding and output head [V, H]."""
        return self.target.embedding, self.target.head

    def take(self, look: Look, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Make what a look needs; `chosen` are its texts and their anchors. Texts too short have none."""
        while len(self.texts) < look.last:
            numbers = self._order[len(self.texts) : min(look.last, len(self.texts) + GENERATED_TOGETHER)]
            self._grow([self.prompts[number] for number in numbers])
            if on_progress is not None:
                on_progress(len(self.texts), look.last)
        self._ids = few_ids([text.tokens for text in self.texts], len(self.target.head))
        self.chosen = []
        for index in range(look.first, look.last):
            text = self.texts[index]
            order = np.random.default_rng([self.seed, 1, index]).permutation(text.anchors(self.proposals))
            if len(order):
                self.chosen.append((index, sorted(order[: look.anchors].tolist())))

    def require_anchors(self) -> None:
        """Raise `InputError` if no text leaves room for a whole draft."""
        if not self.chosen:
            what, before = ("text", 1) if self.given else ("continuation", 0)  # a text's own first token
            longest = max(len(text.tokens) - text.start for text in self.texts) + before
            least = self.proposals + before
            raise InputError(
                f"prompts: found no {what} of more than {least} tokens (longest: {longest}), "
                "expected longer ones, so that a whole draft has true tokens to be compared with"
            )

    @property
    def reach(self) -> int:
        """Context rows of the farthest anchor."""
        return max(max(anchors) for _, anchors in self.chosen)

    def _grow(self, prompts: list[tuple[int, ...]]) -> None:
        begin = time.perf_counter()
        if self.given:
            texts = [Text(tuple(prompt), 1) for prompt in prompts]
        else:
            runs = Decoder(self.target).generate(prompts, self.max_new_tokens)
            texts = [
                Text((*prompt, *run.tokens), len(prompt)) for prompt, run in zip(prompts, runs, strict=True)
            ]
        done = time.perf_counter()
        for text in texts:
            self.store.add(self._features(text))
        self.texts += texts
        self.seconds.tokens += 0 if self.given else sum(len(text.tokens) - text.start for text in texts)
        self.seconds.rows += sum(len(text.tokens) for text in texts)
        self.seconds.generation += done - begin
        self.seconds.features += time.perf_counter() - done

    def _features(self, text: Text) -> torch.Tensor:
        with torch.inference_mode():
            cache = self.target.new_cache()
            ids = torch.tensor(text.tokens, device=self.target.device)
            return torch.cat([taps for _, taps in feed(self.target, cache, cache.open(), ids)])

    def _place(self, index: int) -> int:
        """Where the store keeps a text."""
        return index if self._stored is None else self._stored[index]

    def scores(self, wired: Wired) -> PromptScores:
        """One pass of a drafter over all chosen anchors: scores by prompt."""
        begin = time.perf_counter()
        tasks = []
        for index, anchors in self.chosen:
            taps = self.store.get(self._place(index), wired.taps).to(self.target.device)
            tasks.append(Task(self.texts[index], anchors, taps))
        out = score(wired.drafter, tasks, self.memory, self._ids)
        self.seconds.drafter += time.perf_counter() - begin
        self.seconds.passes += 1
        self.seconds.anchors += sum(len(anchors) for _, anchors in self.chosen)
        return out
