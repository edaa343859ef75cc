"""Choosing drafts, and the proposal that comes of it.

A draft and its q must belong together: scoring an argmax as if it had been sampled from a soft q biases the
output. So q is never handed in. `Drafts` chooses every token and keeps the law that it drew it from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from truedraft.contract import InputError
from truedraft.decode.sampling import GREEDY, Chance, Sampling

_MAKER = object()


class DraftLaw:
    """q of one sequence's drafts: float64 [γ, draft ids] with a map to target ids, and the drafts themselves.

    Made by `Drafts` only. It answers for the tokens that were drawn from it and for no others.
    """

    def __init__(self, drawn: Sequence[int], laws: Tensor, target_ids: Tensor | None, maker: object) -> None:
        if maker is not _MAKER:
            raise TypeError("a DraftLaw comes from Drafts, which drew the tokens from it")
        self._drawn, self._laws, self._target_ids = tuple(drawn), laws, target_ids

    def require(self, drafts: Sequence[int]) -> None:
        """Raise `ValueError` unless these are the first of the tokens that were drawn from it."""
        if tuple(drafts) != self._drawn[: len(drafts)]:
            raise ValueError(f"drafts {list(drafts)} were not drawn from this law, {self._drawn} were")

    def dense(self, slot: int, vocabulary: int) -> Tensor:
        """The law of one slot over target ids, float64 [vocabulary]."""
        law = self._laws[slot]
        target_ids = self._target_ids
        if target_ids is None and len(law) == vocabulary:
            return law
        if target_ids is None:
            target_ids = torch.arange(len(law), device=law.device)
        return law.new_zeros(vocabulary).index_add_(0, target_ids, law)


@dataclass(frozen=True)
class Proposal:
    """Drafts for a batch of rounds.

    `tokens`: int64 [B, γ] target ids. `lengths`: [B] how many of them count. `parents`: `None` for chains;
    for trees, per round, each draft's parent among the round's drafts, -1 for the anchor (`Tree`).
    `confidence`: [B, γ] expected acceptance of each draft given the ones before, or `None`. `laws`: [B] what
    the drafts were drawn from, set by `Drafts` alone; empty when each draft is taken as given (q is one-hot),
    which is lossless however it was chosen.
    """

    tokens: Tensor
    lengths: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...] | None = None
    confidence: Tensor | None = None
    laws: tuple[DraftLaw, ...] = field(default=(), init=False)

    def law(self, index: int) -> DraftLaw | None:
        """The law of the `index`-th round's drafts, or `None` for one-hot."""
        return self.laws[index] if self.laws else None

    def shortened(self, lengths: Sequence[int]) -> Proposal:
        """The same drafts with smaller lengths."""
        cut = replace(self, lengths=tuple(map(min, self.lengths, lengths)))
        object.__setattr__(cut, "laws", self.laws)
        return cut


class Drafts:
    """Chooses the drafts of B rounds, slot by slot, greedily or from their law.

    `chances`: one per round, used when `sampling` is not greedy. `target_ids`: int64 [draft ids], the target
    id of each draft id; `None` where they are the same.
    """

    def __init__(
        self,
        sampling: Sampling = GREEDY,
        chances: Sequence[Chance | None] = (),
        target_ids: Tensor | None = None,
    ) -> None:
        if not sampling.greedy and (not chances or any(chance is None for chance in chances)):
            raise ValueError("sampled drafts need a source of randomness per round")
        self._sampling = sampling
        self._chances = [chance for chance in chances if chance is not None]
        self._target_ids = target_ids
        self._tokens: list[Tensor] = []
        self._laws: list[Tensor] = []

    def choose(self, logits: Tensor) -> Tensor:
        """Choose the next slot's drafts from logits [B, draft ids]; returns target ids [B]."""
        require_finite(logits)
        if self._sampling.greedy:
            chosen = logits.argmax(-1)
        else:
            law = self._sampling.law(logits)
            drawn = [chance.draw(row) for chance, row in zip(self._chances, law, strict=True)]
            chosen = torch.tensor(drawn, device=logits.device)
            self._laws.append(law)
        tokens = self._targets(chosen)
        self._tokens.append(tokens)
        return tokens.clone()  # the caller's copy: what is proposed stays what was drawn

    def choose_all(self, logits: Tensor) -> Tensor:
        """Choose all slots at once from logits [B, γ, draft ids] that do not depend on the choices."""
        if not self._sampling.greedy:
            return torch.stack([self.choose(logits[:, k]) for k in range(logits.shape[1])], 1)
        require_finite(logits)
        tokens = self._targets(logits.argmax(-1))
        self._tokens.extend(tokens.unbind(1))
        return tokens.clone()

    def _targets(self, chosen: Tensor) -> Tensor:
        return chosen if self._target_ids is None else self._target_ids[chosen]

    def proposal(self, confidence: Tensor | None = None) -> Proposal:
        """All drafts chosen so far."""
        tokens = torch.stack(self._tokens, 1)
        proposal = Proposal(tokens, (tokens.shape[1],) * len(tokens), confidence=confidence)
        if self._laws:
            laws = torch.stack(self._laws, 1)
            drawn = zip(tokens.tolist(), laws, strict=True)
            made = tuple(DraftLaw(own, law, self._target_ids, _MAKER) for own, law in drawn)
            object.__setattr__(proposal, "laws", made)
        return proposal


def require_finite(logits: Tensor) -> None:
    """Raise `InputError` if a row of a drafter's logits [..., ids] has NaN or +inf, or is -inf throughout."""
    if not bool(torch.isfinite(logits.amax(-1)).all()):  # -inf rules a token out
        raise InputError("the drafter's logits: found NaN or infinite values, expected a working drafter")
