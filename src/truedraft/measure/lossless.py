"""Whether speculative output is what the target alone would have made, and how that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from truedraft.decode import Generation

Method: TypeAlias = Literal["greedy_identity", "greedy_on_same_prompts", "sampled_identity"]

METHODS: dict[Method, str] = {
    "greedy_identity": "identical to plain greedy decoding through the same target",
    "greedy_on_same_prompts": "identical to plain greedy decoding when these prompts are decoded greedily",
    "sampled_identity": "identical to plain sampled decoding with the same seed through the same target",
}
"""What `identical` means, by method."""

Tie: TypeAlias = "tuple[bool, float, float]"


@dataclass(frozen=True)
class Divergence:
    """Where a speculative output left the plain one. `gap`, `epsilon` in logits.

    Both are `None` where one output merely ends earlier, which is never a tie.
    """

    prompt_id: str
    position: int
    gap: float | None
    epsilon: float | None
    tie: bool


@dataclass(frozen=True)
class Lossless:
    """How losslessness was established: `identical` of `of` outputs equal the plain ones.

    `ties`: outputs that differ only from a tie on. `ok`: every output is identical or a tie.
    """

    identical: int
    of: int
    divergences: tuple[Divergence, ...] = ()
    method: Method = "greedy_identity"

    @property
    def ties(self) -> int:
        """Outputs that are identical up to a tie."""
        return sum(d.tie for d in self.divergences)

    @property
    def ok(self) -> bool:
        """Whether no output differs otherwise than by a tie."""
        return self.identical + self.ties == self.of

    def to_json(self) -> dict[str, Any]:
        """The `lossless` object of `truedraft run --json`."""
        return {
            "method": self.method,
            "identical": self.identical,
            "of": self.of,
            "ties": self.ties,
            "divergences": [asdict(d) for d in self.divergences],
        }


def compare(
    ids: Sequence[str],
    plain_runs: Sequence[Generation],
    spec_runs: Sequence[Generation],
    tie_at: Callable[[int, int], Tie],
    method: Method,
) -> Lossless:
    """Hold every output against the plain one.

    `tie_at(prompt, position)`: whether leaving prompt number `prompt`'s plain output at `position` is a tie,
    with the gap and ε.
    """
    identical, divergences = 0, []
    for number, (plain, spec) in enumerate(zip(plain_runs, spec_runs, strict=True)):
        if plain.tokens == spec.tokens:
            identical += 1
            continue
        pairs = zip(plain.tokens, spec.tokens, strict=False)
        position = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if position is None:  # one is a prefix of the other: no logit explains that
            shorter = min(len(plain.tokens), len(spec.tokens))
            divergences.append(Divergence(ids[number], shorter, None, None, False))
            continue
        tie, gap, epsilon = tie_at(number, position)
        divergences.append(Divergence(ids[number], position, gap, epsilon, tie))
    return Lossless(identical, len(ids), tuple(divergences), method)
