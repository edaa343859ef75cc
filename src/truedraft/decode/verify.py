"""Verification of a chain of drafts: which of them stay, and the target's token behind them.

Every rule leaves the output exactly as the target alone would have made it: its argmax, or its law. p is the
target's law, q the drafter's; drafts without a law are taken as given, q is one-hot then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from truedraft.decode.drafts import DraftLaw
from truedraft.decode.sampling import Chance, require_law

Verification: TypeAlias = Literal["greedy", "standard", "block", "exact_match"]
RULES = get_args(Verification)


@dataclass(frozen=True)
class Verdict:
    """What one round adds to the output.

    `tokens`: what reaches the output, cut at a stop token (which is included) or at the limit. `proposed`,
    `accepted`: drafts of this round that count; where the output was cut, drafts behind the cut count as
    neither. `finish`: `stop`, `length`, or `None` to go on.
    """

    tokens: tuple[int, ...]
    proposed: int
    accepted: int
    finish: str | None


def verify_greedy(drafts: Sequence[int], choices: Sequence[int]) -> tuple[int, int]:
    """Accept drafts while they equal the target's choices; the accepted count and the next token.

    `drafts`: K tokens. `choices`: K + 1 tokens, the target's argmax after the anchor and after each draft.
    """
    agree = 0
    while agree < len(drafts) and drafts[agree] == choices[agree]:
        agree += 1
    return agree, choices[agree]


def verify_sampled(
    drafts: Sequence[int], p_target: Tensor, law: DraftLaw | None, chance: Chance, method: Verification
) -> tuple[int, int]:
    """Accept drafts so that the output has the target's law; the accepted count and the next token.

    `p_target`: float64 [K + 1, V], the target's laws after the anchor and after each draft.

    * `standard` (arXiv 2211.17192): accept x with probability min(1, p/q); at the first rejection draw from
      max(p - q, 0) normalised.
    * `block` (arXiv 2403.10444): decide on whole prefixes; accepts at least as many on average.
    * `exact_match`: draw the target's own tokens and accept drafts while they are equal. Uses one draw per
      output token, so that a seed gives the same text as plain sampling.

    Raises `ValueError` if a draft is not the one that was drawn from its law, `InputError` if a law that
    decides is none (NaN logits).
    """
    if method not in ("standard", "block", "exact_match"):
        raise ValueError(f"method: found {method!r}, expected standard, block or exact_match")
    if method == "exact_match":
        return _exact_match(drafts, p_target, chance)
    if law is not None:
        law.require(drafts)
    p_draft = [_draft_law(law, k, draft, p_target) for k, draft in enumerate(drafts)]
    if method == "block":
        return _block(drafts, p_target, p_draft, chance)
    for k, draft in enumerate(drafts):
        p, q = _probability(p_target[k], draft), float(p_draft[k][draft])
        if not chance.coin(min(1.0, p / q)):
            return k, _residual(p_target[k], p_draft[k], chance)
    return len(drafts), chance.draw(p_target[len(drafts)])


def _exact_match(drafts: Sequence[int], p_target: Tensor, chance: Chance) -> tuple[int, int]:
    for k, draft in enumerate(drafts):
        own = chance.draw(p_target[k])
        if own != draft:
            return k, own
    return len(drafts), chance.draw(p_target[len(drafts)])


def _block(
    drafts: Sequence[int], p_target: Tensor, p_draft: Sequence[Tensor], chance: Chance
) -> tuple[int, int]:
    """Block verification: a coin per prefix, the longest prefix whose coin succeeds stays.

    With w_0 = 1, w_i = min(1, w_{i-1} p(x_i) / q(x_i)) and Z_i = Σ_x max(w_i p(x) - q(x), 0) over the
    next token x, prefix i succeeds with probability Z_i / (Z_i + 1 - w_i), the whole block with w_K.
    Algorithm 2 of arXiv 2403.10444.
    """
    weight, accepted, kept = 1.0, 0, 1.0
    for i in range(1, len(drafts) + 1):
        p, q = _probability(p_target[i - 1], drafts[i - 1]), float(p_draft[i - 1][drafts[i - 1]])
        weight = min(1.0, weight * p / q)
        if weight == 0:  # no longer prefix can succeed, and the laws behind it may be of no use
            break
        if i == len(drafts):
            succeeds = weight
        else:
            require_law(p_target[i])
            spare = float((weight * p_target[i] - p_draft[i]).clamp(min=0).sum())
            missing = 1 - weight
            succeeds = 1.0 if spare == missing == 0 else spare / (spare + missing)
        if chance.coin(succeeds):
            accepted, kept = i, weight
    if accepted == len(drafts):
        return accepted, chance.draw(p_target[accepted])
    return accepted, _residual(kept * p_target[accepted], p_draft[accepted], chance)


def _probability(law: Tensor, token: int) -> float:
    require_law(law)
    return float(law[token])


def _draft_law(law: DraftLaw | None, slot: int, draft: int, p_target: Tensor) -> Tensor:
    if law is not None:
        return law.dense(slot, p_target.shape[1])
    one_hot = torch.zeros_like(p_target[0])
    one_hot[draft] = 1.0
    return one_hot


def _residual(p: Tensor, q: Tensor, chance: Chance) -> int:
    rest = (p - q).clamp(min=0)
    # p = q up to rounding cannot be rejected but by rounding: p itself is right then
    return chance.draw(rest if bool(rest.any()) else p)


def conclude(
    drafts: Sequence[int],
    accepted: int,
    token: int,
    stop: frozenset[int],
    remaining: int,
    proposed: int | None = None,
) -> Verdict:
    """What a round adds to the output: accepted drafts and the target's token, cut at stop and limit.

    `remaining` >= 1: tokens that may still be output. `proposed`: what counts as proposed where nothing is
    cut (default: all drafts); for a tree its depth, `drafts` being those of the accepted path.
    """
    emitted = [*drafts[:accepted], token]
    end = next((i + 1 for i, own in enumerate(emitted) if own in stop), len(emitted))
    kept = min(end, remaining)
    finish = "stop" if emitted[kept - 1] in stop else "length" if kept == remaining else None
    cut = kept <= accepted
    return Verdict(
        tokens=tuple(emitted[:kept]),
        proposed=kept if cut else len(drafts) if proposed is None else proposed,
        accepted=kept if cut else accepted,
        finish=finish,
    )
