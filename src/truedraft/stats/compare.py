"""Comparison of two arms: every figure with its interval, and a verdict where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from truedraft.contract import InputError
from truedraft.stats.arms import Arm
from truedraft.stats.components import ArmEstimate
from truedraft.stats.contrast import Contrast, independent, paired
from truedraft.stats.design import (
    MANY_PROMPTS,
    Design,
    Pairing,
    design,
    identical_text,
    settings_that_differ,
    warnings,
)
from truedraft.stats.figures import Sums, figures
from truedraft.stats.holm import holm
from truedraft.stats.pigeonhole import Resampled, pigeonhole
from truedraft.stats.rows import Comparison, Row


def compare(
    a: Arm,
    b: Arm,
    *,
    margin: float | None = None,
    by_category: bool = False,
    pairing: Pairing = "auto",
    seed: int = 0,
) -> Comparison:
    """Compare arm `b` with arm `a` on the prompts that all boots decoded.

    `margin`: also test whether τ of b lies within (1 ± margin) τ of a. `pairing`: which boots belong together
    (`docs/statistics.md`). Raises `InputError` if the arms' figures have different definitions or no common
    prompt, or if a boot is there twice.
    """
    plan = design(a, b, pairing)
    found = tuple(warnings(a, b, plan))
    sums = tuple(figures(arm, plan.prompts, plan.width) for arm in (a, b))
    rows: list[Row] = []
    for category, chosen in _groups(a, b, plan, by_category):
        pairs = [
            (sums[0][key].only(chosen), sums[1][key].only(chosen))
            for key in sums[0]
            if _compared(key[0], plan)
        ]
        defined = [pair for pair in pairs if all(x.defined for x in pair)]
        rows += _rows(defined, category, plan, margin, seed, alone=a.repeats_itself or b.repeats_itself)
    return Comparison(
        a,
        b,
        plan,
        tuple(_adjusted(rows)),
        (
            identical_text(a, b, plan.prompts),
            identical_text(a, a, plan.prompts),
            identical_text(b, b, plan.prompts),
        ),
        (_boot_sd(sums[0]["tau", None]), _boot_sd(sums[1]["tau", None])),
        settings_that_differ(a, b),
        found,
    )


def _boot_sd(sums: Sums) -> float | None:
    values = sums.per_boot
    return float(values.std(ddof=1) / values.mean()) if len(values) > 1 else None


def _groups(
    a: Arm, b: Arm, plan: Design, by_category: bool
) -> Iterator[tuple[str | None, np.typing.NDArray[np.intp]]]:
    """Categories and the indices of their prompts, then all prompts."""
    if by_category:
        names = [a.categories[prompt] or b.categories[prompt] for prompt in plan.prompts]
        if not any(names):
            raise InputError("found no record with a category, expected some to compare by category")
        for name in sorted(set(names)):
            yield name, np.flatnonzero([other == name for other in names])
    yield None, np.arange(len(plan.prompts))


def _compared(figure: str, plan: Design) -> bool:
    return figure in ("tau", "tau_macro") or (not plan.tau_only and not (figure == "rate" and plan.no_rate))


def _rows(
    pairs: Sequence[tuple[Sums, Sums]],
    category: str | None,
    plan: Design,
    margin: float | None,
    seed: int,
    *,
    alone: bool,
) -> Iterator[Row]:
    """`alone`: the boots of an arm are one and the same; as with a single boot there is nothing to test."""
    tests: list[Contrast | Resampled | None] = [None] * len(pairs)
    if alone:
        pass
    elif plan.many and pairs[0][0].numerator.shape[1] >= MANY_PROMPTS:
        tests = [*pigeonhole(pairs, pairs=plan.pairs, seed=seed)]
    elif min(len(sums.numerator) for sums in pairs[0]) > 1:
        method = paired if plan.pairs else independent
        tests = [method(x.per_boot, y.per_boot) for x, y in pairs]
    for (x, y), test in zip(pairs, tests, strict=True):
        yield Row(
            figure=x.figure,
            position=x.position,
            category=category,
            prompts=x.numerator.shape[1],
            a=ArmEstimate.of(x),
            b=ArmEstimate.of(y),
            test=test,
            margin=margin if x.figure.startswith("tau") else None,
        )


def _adjusted(rows: Sequence[Row]) -> list[Row]:
    """Holm over the categories of a figure, and over the positions of a figure over all prompts."""
    families: dict[tuple[str, int | None, bool], list[int]] = {}
    for i, row in enumerate(rows):
        across = row.category is not None
        families.setdefault((row.figure, row.position if across else None, across), []).append(i)
    out = list(rows)
    for members in families.values():
        tests = [rows[i].test for i in members]
        p_values = holm([1.0 if test is None else test.p for test in tests])
        beyond = holm(
            [
                1.0 if t is None or (m := rows[i].margin) is None else t.p_beyond(m)
                for i, t in zip(members, tests, strict=True)
            ]
        )
        for i, p, q in zip(members, p_values, beyond, strict=True):
            out[i] = replace(out[i], p=p, beyond=q, family=len(members))
    return out
