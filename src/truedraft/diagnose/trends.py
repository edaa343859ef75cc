"""What acceptance depends on, from acceptance records: context, cached tokens, batch, time, temperature, k.

Two parts of the records are compared by δ = log(a_far / a_near), a = accepted drafts per round, with a
standard error from prompts as clusters (delta method for a ratio of sums). The weight of `flat` is the
density of δ at 0, of `falls` its mean over falls from 10 % to nearly everything; both with 3 % of unevenness
that needs no cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from truedraft.contract import AcceptanceRecord

UNEVEN = 0.03
FEWEST_CLUSTERS, FEWEST_ROUNDS = 3, 40
FALLS = np.linspace(-0.1, -3.0, 59)
LEAST_RATIO = 2.0
"""Contexts, in tokens, whose medians differ less than this say nothing about length."""

HOUR = 3600.0

Weights = dict[str, float]


@dataclass(frozen=True)
class Part:
    """Accepted drafts per round of some records, and the standard error of its logarithm."""

    mean: float
    error: float
    rounds: int


@dataclass(frozen=True)
class Trend:
    """The answer to one question: weights, and in words what was seen."""

    question: str
    weights: Weights
    text: str


def part_of(cells: Iterable[tuple[str, int, int]]) -> Part | None:
    """From (cluster, rounds, accepted); `None` if they are too few."""
    sums: dict[str, list[int]] = {}
    for cluster, rounds, accepted in cells:
        entry = sums.setdefault(cluster, [0, 0])
        entry[0] += rounds
        entry[1] += accepted
    table = np.array(list(sums.values()), dtype=float).reshape(-1, 2)
    total = table.sum(0)
    if len(table) < FEWEST_CLUSTERS or total[0] < FEWEST_ROUNDS:
        return None
    mean = (total[1] + 0.5) / (total[0] + 0.5)
    spread = table[:, 1] - mean * table[:, 0]
    count = len(table)
    error = math.sqrt(float((spread**2).sum()) * count / (count - 1)) / total[0]
    floor = math.sqrt(mean / total[0])  # clusters that agree by chance
    return Part(float(mean), max(error, floor) / float(mean), int(total[0]))


def _density(delta: float, at: float, error: float) -> float:
    return math.exp(-0.5 * ((delta - at) / error) ** 2) / error


def falls(near: Part, far: Part) -> tuple[float, float]:
    """Weights of (flat, falls), not normalised."""
    delta = math.log(far.mean / near.mean)
    error = math.sqrt(near.error**2 + far.error**2 + UNEVEN**2)
    falling = float(np.mean([_density(delta, at, error) for at in FALLS]))
    return _density(min(delta, 0.0), 0.0, error) + 1e-12, falling + 1e-12


def _cells(records: Iterable[AcceptanceRecord]) -> list[tuple[str, int, int]]:
    out = []
    for record in records:
        rounds = sum(record.table.values())
        accepted = sum(a * n for (_, a), n in record.table.items())
        out.append((record.prompt_id or record.request_id, rounds, accepted))
    return out


def _compared(
    question: str,
    near: Sequence[AcceptanceRecord],
    far: Sequence[AcceptanceRecord],
    names: tuple[str, str],
    answers: tuple[str, str] = ("flat", "falls"),
) -> Trend | None:
    one, other = part_of(_cells(near)), part_of(_cells(far))
    if one is None or other is None:
        return None
    flat, fall = falls(one, other)
    text = f"τ {1 + one.mean:.2f} {names[0]}, {1 + other.mean:.2f} {names[1]}"
    return Trend(question, {answers[0]: flat, answers[1]: fall}, text)


def by_cached(records: Sequence[AcceptanceRecord]) -> Trend | None:
    """Requests without cached tokens against those with; the same prompts if enough came both ways."""
    cold = [r for r in records if not r.cached_tokens]
    warm = [r for r in records if r.cached_tokens]
    both = {r.prompt_id for r in cold} & {r.prompt_id for r in warm}
    if len(both) >= FEWEST_CLUSTERS:
        cold = [r for r in cold if r.prompt_id in both]
        warm = [r for r in warm if r.prompt_id in both]
    elif warm:  # cached prompts are longer: compare like with like
        least = float(np.quantile([r.prompt_tokens for r in warm], 0.1))
        cold = [r for r in cold if r.prompt_tokens >= least]
    return _compared("cached", cold, warm, ("without cached tokens", "with"))


def by_context(records: Sequence[AcceptanceRecord], window: int | None) -> Trend | None:
    """The shortest third of the prompts against the longest; with `window`, also within it and beyond."""
    cold = [r for r in records if not r.cached_tokens]
    used = cold if len(cold) >= len(records) / 2 else list(records)
    ordered = sorted((r for r in used if r.prompt_tokens), key=lambda r: r.prompt_tokens)
    third = len(ordered) // 3
    near, far = ordered[:third], ordered[len(ordered) - third :]
    if not third or _median(far) < LEAST_RATIO * _median(near):
        return None
    names = (f"at about {_median(near):.0f} prompt tokens", f"at about {_median(far):.0f}")
    found = _compared("context", near, far, names)
    if found is None or window is None:
        return found
    below = [r for r in ordered if r.prompt_tokens + r.output_tokens <= window]
    beyond = [r for r in ordered if r.prompt_tokens > window]
    step = _compared("context", below, beyond, (f"within {window} tokens", "beyond"))
    half = len(below) // 2
    inside = _compared("context", below[:half], below[half:], ("", ""))
    if step is None or inside is None:
        return found
    at_window = step.weights["falls"] * inside.weights["flat"]
    anywhere = step.weights["falls"] * inside.weights["falls"]
    flat = step.weights["flat"] * inside.weights["flat"]
    weights = {"flat": flat, "falls": anywhere, "falls-at-window": at_window}
    return Trend("context", weights, f"{found.text}; {step.text}")


def _median(records: Sequence[AcceptanceRecord]) -> float:
    return float(np.median([r.prompt_tokens for r in records]))


def by_batch(records: Sequence[AcceptanceRecord]) -> Trend | None:
    """The smallest batch size against the largest."""
    sizes = sorted({r.batch_size for r in records if r.batch_size})
    if len(sizes) < 2:
        return None
    alone = [r for r in records if r.batch_size == sizes[0]]
    many = [r for r in records if r.batch_size == sizes[-1]]
    return _compared("batch", alone, many, (f"at batch size {sizes[0]}", f"at {sizes[-1]}"))


def by_temperature(records: Sequence[AcceptanceRecord]) -> Trend | None:
    """Greedy requests against sampled ones."""
    greedy = [r for r in records if r.temperature == 0]
    sampled = [r for r in records if r.temperature is not None and r.temperature > 0]
    return _compared("sampling", greedy, sampled, ("greedy", "sampled"), ("same", "greedy-good"))


def by_width(records: Sequence[AcceptanceRecord]) -> Trend | None:
    """Acceptance of the first draft, at the smallest k against the largest."""
    widths = sorted({r.K for r in records if r.K})
    if len(widths) < 2:
        return None
    few, many = (part_of(_first(r) for r in records if k == r.K) for k in (widths[0], widths[-1]))
    if few is None or many is None:
        return None
    same, better = falls(few, many)
    text = f"first draft accepted {few.mean:.0%} at k = {widths[0]}, {many.mean:.0%} at k = {widths[-1]}"
    return Trend("k", {"same": same, "fewer-better": better}, text)


def _first(record: AcceptanceRecord) -> tuple[str, int, int]:
    table = record.table
    offered = sum(n for (p, _), n in table.items() if p)
    return record.prompt_id or record.request_id, offered, sum(n for (_, a), n in table.items() if a)


def by_output(records: Sequence[AcceptanceRecord]) -> Trend | None:
    """The first half of each answer's rounds against the last half."""
    early, late = [], []
    for record in records:
        half = len(record.accepted) // 2
        if half >= 4:
            name = record.prompt_id or record.request_id
            early.append((name, half, sum(record.accepted[:half])))
            late.append((name, half, sum(record.accepted[-half:])))
    one, other = part_of(early), part_of(late)
    if one is None or other is None:
        return None
    flat, fall = falls(one, other)
    text = f"τ {1 + one.mean:.2f} in the first half of the answers, {1 + other.mean:.2f} in the last"
    return Trend("generated", {"flat": flat, "falls": fall}, text)


def by_time(cells: Sequence[tuple[float, int, int]], unit: str) -> Trend | None:
    """(time, rounds, accepted) in order: the first third against the last, and a step against a slope."""
    third = len(cells) // 3
    if third < FEWEST_CLUSTERS:
        return None
    named = [(str(i), rounds, accepted) for i, (_, rounds, accepted) in enumerate(cells)]
    near, far = part_of(named[:third]), part_of(named[-third:])
    if near is None or far is None:
        return None
    flat, fall = falls(near, far)
    step, slope = _misfits(cells)
    total = step + slope
    share = 0.5 if total <= 0 else slope / total  # the better a step fits, the worse the slope does
    text = (
        f"τ {1 + near.mean:.2f} in the first third of the {len(cells)} {unit}, {1 + far.mean:.2f} in the last"
    )
    return Trend("uptime", {"flat": flat, "steps": fall * share, "declines": fall * (1 - share)}, text)


def _misfits(cells: Sequence[tuple[float, int, int]]) -> tuple[float, float]:
    """Weighted squares left by the best single step, and by the best line over time."""
    time = np.array([cell[0] for cell in cells])
    weight = np.array([cell[1] for cell in cells], dtype=float)
    value = np.array([cell[2] / max(cell[1], 1) for cell in cells])
    best = math.inf
    for at in range(2, len(cells) - 1):
        left = np.average(value[:at], weights=weight[:at] + 1e-9)
        right = np.average(value[at:], weights=weight[at:] + 1e-9)
        fitted = np.where(np.arange(len(cells)) < at, left, right)
        best = min(best, float((weight * (value - fitted) ** 2).sum()))
    centred = time - np.average(time, weights=weight + 1e-9)
    mean = np.average(value, weights=weight + 1e-9)
    below = float((weight * centred**2).sum())
    slope = float((weight * centred * (value - mean)).sum()) / below if below else 0.0
    line = float((weight * (value - mean - slope * centred) ** 2).sum())
    return best, line


def of_records(records: Sequence[AcceptanceRecord], window: int | None = None) -> list[Trend]:
    """Every question that these records answer."""
    simple: tuple[Callable[[Sequence[AcceptanceRecord]], Trend | None], ...] = (
        by_cached,
        by_batch,
        by_temperature,
        by_width,
        by_output,
    )
    found = [rule(records) for rule in simple] + [by_context(records, window)]
    timed = sorted((r for r in records if r.started), key=lambda r: r.started)
    if timed and timed[-1].started - timed[0].started >= HOUR:
        cells = [(r.started, n, a) for r, (_, n, a) in zip(timed, _cells(timed), strict=True)]
        found.append(by_time(cells, "requests"))
    return [trend for trend in found if trend is not None]
