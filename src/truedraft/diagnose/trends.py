"""What acceptance depends on, from acceptance records: context, cached tokens, batch, time, temperature, k.

Two parts of the records are compared as `parts.py` says, with prompts as clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from truedraft.contract import AcceptanceRecord
from truedraft.diagnose.parts import FEWEST_CLUSTERS, Cell, Part, falls, parts_of

LEAST_RATIO = 2.0
"""Contexts, in tokens, whose medians differ less than this say nothing about length."""

HOUR = 3600.0
"""Seconds from which a log or a run says anything about the time since the start."""

BLOCKS = 8
"""Stretches of a third of a log: neighbouring intervals serve the same requests."""

Weights = dict[str, float]


@dataclass(frozen=True)
class Trend:
    """The answer to one question: weights, and in words what was seen."""

    question: str
    weights: Weights
    text: str


def _prompt(record: AcceptanceRecord) -> str:
    return record.prompt_id or record.request_id


def _cells(records: Iterable[AcceptanceRecord]) -> list[Cell]:
    out = []
    for record in records:
        table = record.table
        out.append((_prompt(record), sum(table.values()), sum(a * n for (_, a), n in table.items())))
    return out


def _compared(
    question: str,
    near: Sequence[AcceptanceRecord],
    far: Sequence[AcceptanceRecord],
    names: tuple[str, str],
    answers: tuple[str, str] = ("flat", "falls"),
) -> Trend | None:
    found = parts_of(_cells(near), _cells(far))
    if found is None:
        return None
    one, other = found
    flat, fall = falls(one, other)
    text = f"τ {1 + one.mean:.2f} {names[0]}, {1 + other.mean:.2f} {names[1]} {_basis(one, other)}"
    return Trend(question, {answers[0]: flat, answers[1]: fall}, text)


def _basis(one: Part, other: Part) -> str:
    """How many prompts the two figures rest on."""
    both = len(one.pull.keys() & other.pull.keys())
    if both == one.clusters == other.clusters:
        return f"(the same {both} prompts)"
    shared = f", {both} of them in both" if both else ""
    return f"({one.clusters} and {other.clusters} prompts{shared})"


def by_cached(records: Sequence[AcceptanceRecord]) -> Trend | None:
    """Requests without cached tokens against those with; the same prompts if enough came both ways."""
    cold = [r for r in records if not r.cached_tokens]
    warm = [r for r in records if r.cached_tokens]
    both = {_prompt(r) for r in cold} & {_prompt(r) for r in warm}
    if len(both) >= FEWEST_CLUSTERS:
        cold = [r for r in cold if _prompt(r) in both]
        warm = [r for r in warm if _prompt(r) in both]
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
    at_few, at_many = ([_first(r) for r in records if k == r.K] for k in (widths[0], widths[-1]))
    found = parts_of(at_few, at_many)
    if found is None:
        return None
    few, many = found
    same, better = falls(few, many)
    at = [f"{part.mean:.0%} at k = {k}" for part, k in ((few, widths[0]), (many, widths[-1]))]
    text = f"first draft accepted {at[0]}, {at[1]} {_basis(few, many)}"
    return Trend("k", {"same": same, "fewer-better": better}, text)


def _first(record: AcceptanceRecord) -> Cell:
    table = record.table
    offered = sum(n for (p, _), n in table.items() if p)
    return _prompt(record), offered, sum(n for (_, a), n in table.items() if a)


def by_output(records: Sequence[AcceptanceRecord]) -> Trend | None:
    """The first half of each answer's rounds against the last half, without the round that the end cuts."""
    early, late = [], []
    for record in records:
        accepted = record.accepted[:-1]
        half = len(accepted) // 2
        if half >= 4:
            early.append((_prompt(record), half, sum(accepted[:half])))
            late.append((_prompt(record), half, sum(accepted[-half:])))
    found = parts_of(early, late)
    if found is None:
        return None
    one, other = found
    flat, fall = falls(one, other)
    halves = f"{1 + one.mean:.2f} in the first half of the answers, {1 + other.mean:.2f} in the last"
    text = f"τ {halves} {_basis(one, other)}"
    return Trend("generated", {"flat": flat, "falls": fall}, text)


def by_time(cells: Sequence[tuple[float, str, int, int]], unit: str) -> Trend | None:
    """(time, prompt, rounds, accepted) in order: the first third against the last, a step against a slope.

    Prompts that are not known ("") are replaced by stretches of time.
    """
    third = len(cells) // 3
    if third < FEWEST_CLUSTERS:
        return None
    parts = []
    for begin in (0, len(cells) - third):
        part = cells[begin : begin + third]
        named = [(name or f"{begin} {i * BLOCKS // third}", n, a) for i, (_, name, n, a) in enumerate(part)]
        parts.append(named)
    found = parts_of(parts[0], parts[1])
    if found is None:
        return None
    near, far = found
    flat, fall = falls(near, far)
    step, slope = _misfits(cells)
    total = step + slope
    share = 0.5 if total <= 0 else slope / total  # the better a step fits, the worse the slope does
    text = (
        f"τ {1 + near.mean:.2f} in the first third of the {len(cells)} {unit}, {1 + far.mean:.2f} in the last"
    )
    return Trend("uptime", {"flat": flat, "steps": fall * share, "declines": fall * (1 - share)}, text)


def _misfits(cells: Sequence[tuple[float, str, int, int]]) -> tuple[float, float]:
    """Weighted squares left by the best single step, and by the best line over time."""
    used = [(time, rounds, accepted / rounds) for time, _, rounds, accepted in cells if rounds]
    time, weight, value = (np.array(column, dtype=float) for column in zip(*used, strict=True))
    all_squares = float((weight * value**2).sum())
    sums, weights = np.cumsum(weight * value), np.cumsum(weight)
    left, before = sums[1:-2], weights[1:-2]
    explained = left**2 / before + (sums[-1] - left) ** 2 / (weights[-1] - before)
    best = max(all_squares - float(explained.max(initial=0.0)), 0.0)
    centred = time - np.average(time, weights=weight)
    mean = float(sums[-1] / weights[-1])
    below = float((weight * centred**2).sum())
    slope = float((weight * centred * (value - mean)).sum()) / below if below else 0.0
    line = float((weight * (value - mean - slope * centred) ** 2).sum())
    return best, line


def deployments(records: Iterable[AcceptanceRecord]) -> list[str]:
    """What served the records, in words; of more than one a difference says nothing about the rest."""
    seen = {(r.arm, r.engine, r.version, r.runner, r.contract_hash): None for r in records}
    return [" ".join(part for part in entry if part) or "unnamed" for entry in seen]


def of_records(records: Sequence[AcceptanceRecord], window: int | None = None) -> list[Trend]:
    """Every question that these records answer; none if they are of several deployments."""
    if len(deployments(records)) > 1:
        return []
    records = [r for r in records if any(proposed for proposed, _ in r.table)]
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
        cells = [(r.started, *cell) for r, cell in zip(timed, _cells(timed), strict=True)]
        found.append(by_time(cells, "requests"))
    return [trend for trend in found if trend is not None]
