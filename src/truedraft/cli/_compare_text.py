"""A comparison as aligned text, in the manner of benchstat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from truedraft.cli._printable import printable
from truedraft.cli._style import Style
from truedraft.stats import Comparison, Row
from truedraft.stats.components import ArmEstimate

FIGURES = {
    "tau": "tau, pooled",
    "tau_macro": "tau, per prompt",
    "rate": "draft acceptance rate",
    "survival": "survival",
    "conditional": "conditional",
}
"""Figure -> its title, in the order of printing."""


def comparison_lines(result: Comparison, style: Style) -> Iterator[str]:
    """Headings, a line per figure, and what the figures rest on."""
    table = [("", *(f"{arm.name} ({_count(len(arm.boots), 'boot')})" for arm in (result.a, result.b)), "")]
    rows = _chosen(result)
    table += [(_title(row), _estimate(row.a), _estimate(row.b), _change(row)) for row in rows]
    texts = [tuple(printable(cell) for cell in line) for line in table]
    widths = [max(len(line[i]) for line in texts) for i in range(3)]
    for number, line in enumerate(texts):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        text = "   ".join([*cells, line[3]]).rstrip()
        shown = number and rows[number - 1].verdict in ("higher", "lower")
        yield style.bold(text) if not number or shown else text
    yield from (style.dim(printable(line)) for line in _notes(result))
    yield from (style.warn("warning  ") + printable(line) for line in result.warnings)


def _chosen(result: Comparison) -> list[Row]:
    """Pooled τ, below it its categories; then the other figures over all prompts. The rest is in `--json`."""
    rows = [row for row in result.rows if row.category is None or row.figure == "tau"]
    order = list(FIGURES)
    return sorted(
        rows,
        key=lambda row: (
            order.index(row.figure),
            row.category is not None,
            row.category or "",
            row.position or 0,
        ),
    )


def _title(row: Row) -> str:
    if row.category is not None:
        return f"  {row.category or '(no category)'}"
    return FIGURES[row.figure] + ("" if row.position is None else f" {row.position}")


def _estimate(estimate: ArmEstimate) -> str:
    interval = estimate.interval()
    if interval is None or not estimate.value:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ± {(interval[1] - estimate.value) / estimate.value:.1%}"


def _change(row: Row) -> str:
    test = row.test
    if test is None:
        by = f"{row.b.value / row.a.value - 1:+.1%}" if row.a.value else f"{row.b.value - row.a.value:+.3f}"
        return f"{by}  estimate only"
    if row.verdict == "no difference shown":
        least = row.detectable or 0.0
        text = f"~  (MDE {f'{least / row.a.value:.1%}' if row.a.value else f'{least:.3f}'}, {_p(row.p)})"
    elif (between := test.ratio_interval()) is not None and test.ratio is not None:
        text = f"{test.ratio - 1:+.1%} {_range([100 * (end - 1) for end in between], 1)}  {_p(row.p)}"
    else:
        text = f"{test.difference:+.3f} {_range(test.interval(), 3)}  {_p(row.p)}"
    if row.equivalent is not None:
        shown = "within" if row.equivalent else "not shown within"
        text += f"  {shown} ±{100 * (row.margin or 0):g}% ({_p(row.beyond)})"
    return text


def _range(ends: Iterable[float], digits: int) -> str:
    return "[" + ", ".join(f"{end:+.{digits}f}" for end in ends) + "]"


def _p(p: float) -> str:
    return "p<0.0001" if p < 1e-4 else f"p={p:.4f}" if p < 0.01 else f"p={p:.3f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _notes(result: Comparison) -> Iterator[str]:
    plan, judged = result.design, result.row("tau")
    yield "tau = 1 + accepted drafts / rounds, bonus token included; mean over boots of each boot's figure"
    if judged.test is None:
        yield "one boot in an arm: estimate only, no verdict; at least 2 per arm show how much boots differ"
        yield "± covers the choice of prompts" + "".join(
            f", in {arm.name} boots too" for arm in (result.a, result.b) if len(arm.boots) > 1
        )
    else:
        held = "drawn anew" if plan.many else "held fixed"
        boots = "in pairs" if plan.pairs else "independent"
        spread = " and ".join(f"{sd or 0:.1%}" for sd in result.boot_sd)
        yield (
            f"{plan.method} over boots ({boots}), df {judged.test.df:.1f} · "
            f"{len(plan.prompts)} prompts paired, {held} · tau differs by {spread} (sd) from boot to boot"
        )
        if any(row.family > 1 for row in _chosen(result)):
            yield "p of categories, and of a figure's positions, by Holm; intervals are 95 % each"
        if any(row.verdict == "no difference shown" for row in _chosen(result)):
            yield "~ no difference shown; MDE: what this design would see with power 80 %"
    if result.same_text[0] is not None:
        within = [
            f"{x:.0%} between boots of {name}"
            for name, x in zip("AB", result.same_text[1:], strict=True)
            if x is not None
        ]
        yield f"text identical {result.same_text[0]:.0%}" + (f" ({', '.join(within)})" if within else "")
    for key, (a, b) in result.settings.items():
        yield f"differs: {key} {a or '(none)'} and {b or '(none)'}"
    yield from filter(None, (plan.tau_only and f"tau only: {plan.tau_only}", plan.no_rate))
