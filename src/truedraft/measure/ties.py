"""When a speculative output may differ from the plain one without being wrong: a tie.

Forwards with different row counts use different kernels, so logits differ in their last bits. A
divergence is a tie only if the two best logits of the plain run at that position lie within 2ε, ε being the
largest logit change between row counts measured for this model on this text. An ε that rounding
cannot explain is itself a fault, so that a forward that is wrong for many rows does not excuse itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from truedraft.decode import Sampling, Target, feed
from truedraft.decode.sampling import invert


def logits_by_rows(target: Target[Any], tokens: Sequence[int], start: int, rows: int) -> Tensor:
    """Logits [len(tokens) - start, V] of positions from `start` on, computed `rows` rows at a time."""
    ids = torch.tensor(tokens, device=target.device)
    cache = target.new_cache()
    sequence = cache.open()
    with torch.inference_mode():
        for _ in feed(target, cache, sequence, ids[:start]):
            pass
        pieces = feed(target, cache, sequence, ids, start=start, rows=rows, all_logits=True)
        return torch.cat([logits for logits, _ in pieces])


def row_count_epsilon(
    target: Target[Any], tokens: Sequence[int], start: int, rows: int
) -> tuple[float, Tensor]:
    """ε: largest change of any logit between 1-row and `rows`-row forwards; and the 1-row logits."""
    single = logits_by_rows(target, tokens, start, 1)
    several = logits_by_rows(target, tokens, start, rows)
    return float((single - several).abs().max()), single


def plausible_epsilon(logits: Tensor, dtype: torch.dtype) -> float:
    """Largest ε that rounding in `dtype` explains: 4096 units in the last place, at most 5 %, of |logit|.

    Row counts changed fp32 logits of the models in the tests by up to some hundred units.
    """
    return float(logits.abs().max()) * min(4096 * torch.finfo(dtype).eps, 0.05)


def is_sampling_tie(
    target: Target[Any],
    prompt: Sequence[int],
    plain: Sequence[int],
    other: int,
    position: int,
    rows: int,
    sampling: Sampling,
    point: float,
) -> tuple[bool, float, float]:
    """Whether drawing `other` in place of `plain[position]` from the same `point` in [0, 1) is a tie.

    It is one if the laws of the two row counts send this point to these two tokens, and rounding can explain
    their difference. Returned with the gap between the two tokens' logits, and ε.
    """
    tokens, start = [*prompt, *plain[:position]], max(len(prompt) - 1, 0)
    single, several = (logits_by_rows(target, tokens, start, n) for n in (1, rows))
    epsilon = float((single - several).abs().max())
    drawn = [invert(sampling.law(logits[-1]), point) for logits in (single, several)]
    gap = float((single[-1, plain[position]] - single[-1, other]).abs())
    tie = drawn == [plain[position], other] and epsilon <= plausible_epsilon(single, target.dtype)
    return tie, gap, epsilon


def is_tie(
    target: Target[Any], prompt: Sequence[int], plain: Sequence[int], position: int, rows: int
) -> tuple[bool, float, float]:
    """Whether diverging from `plain` at output index `position` is a tie; with the gap and ε, in logits."""
    tokens = [*prompt, *plain[:position]]
    epsilon, logits = row_count_epsilon(target, tokens, max(len(prompt) - 1, 0), rows)
    best = logits[-1].topk(2).values
    gap = float(best[0] - best[1])
    return gap <= 2 * epsilon <= 2 * plausible_epsilon(logits, target.dtype), gap, epsilon
