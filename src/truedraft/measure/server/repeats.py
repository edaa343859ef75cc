"""Cold against warm, prompt by prompt: what the same request brought the first and the second time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from truedraft.measure.server.reply import Reply
from truedraft.measure.server.settings import Pass

DEFINITION = (
    "pairs: the same prompt in both passes; difference: mean over prompts of warm - cold, sd: of these "
    "differences; tau of a prompt = 1 + its accepted drafts / its rounds; one boot, an estimate only"
)


@dataclass(frozen=True)
class Difference:
    """Of one figure over `prompts` pairs: means, mean and spread of warm - cold (`sd` is `None` for one)."""

    cold: float
    warm: float
    difference: float
    sd: float | None
    prompts: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Difference | None:
        """The difference of (cold, warm) pairs; `None` without any."""
        if not pairs:
            return None
        gaps = [warm - cold for cold, warm in pairs]
        return cls(
            cold=statistics.fmean(cold for cold, _ in pairs),
            warm=statistics.fmean(warm for _, warm in pairs),
            difference=statistics.fmean(gaps),
            sd=statistics.stdev(gaps) if len(gaps) > 1 else None,
            prompts=len(pairs),
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return dict(vars(self))


@dataclass(frozen=True)
class Repeats:
    """Pairs of whole answers of a cold and a warm pass over the same prompts."""

    cold: Pass
    warm: Pass

    def pairs(self) -> Iterator[tuple[int, Reply, Reply]]:
        """Number of the prompt and both answers, where both came whole."""
        for number, (cold, warm) in enumerate(zip(self.cold.replies, self.warm.replies, strict=True)):
            if not cold.error and not warm.error:
                yield number, cold, warm

    @property
    def same_text(self) -> tuple[int, int]:
        """How many pairs have the same text, of how many."""
        same = [cold.text == warm.text for _, cold, warm in self.pairs()]
        return sum(same), len(same)

    @property
    def differences(self) -> dict[str, Difference | None]:
        """Per figure; `None` where no prompt has it in both passes."""
        taus = [(self.cold.tau(number), self.warm.tau(number)) for number, _, _ in self.pairs()]
        return {
            "tau": Difference.of([(a, b) for a, b in taus if a is not None and b is not None]),
            "seconds": Difference.of([(cold.total, warm.total) for _, cold, warm in self.pairs()]),
            "seconds_to_first_token": self._of("first"),
            "cached_tokens": self._of("cached_tokens"),
        }

    def _of(self, name: str) -> Difference | None:
        found = [(getattr(cold, name), getattr(warm, name)) for _, cold, warm in self.pairs()]
        return Difference.of([(float(a), float(b)) for a, b in found if a is not None and b is not None])

    def to_json(self) -> dict[str, Any]:
        """The `repeats` object of `truedraft measure --json`."""
        same, pairs = self.same_text
        return {
            "definition": DEFINITION,
            "text_identical": same / pairs if pairs else None,
            **{name: found and found.to_json() for name, found in self.differences.items()},
            "prompts": [
                {
                    "prompt_id": cold.ask.prompt_id,
                    "text_identical": cold.text == warm.text,
                    "cold": _once(self.cold, number, cold),
                    "warm": _once(self.warm, number, warm),
                }
                for number, cold, warm in self.pairs()
            ],
        }


def _once(of: Pass, number: int, reply: Reply) -> dict[str, Any]:
    return {
        "tau": of.tau(number),
        "seconds": reply.total,
        "seconds_to_first_token": reply.first,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.output_tokens,
    }
