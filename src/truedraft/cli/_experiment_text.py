"""An experiment for a reader: a line per arm, what its fix changed, and what the intervals rest on."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.cli._printable import printable
from truedraft.cli._style import Style
from truedraft.engines.vllm.experiment import Change, Outcome, Setup, Side
from truedraft.measure.sources.definitions import TAU_ENGINE

PLAIN = "outputs as plain"
SHOWN = 5
"""Divergences that are named; `--json` has all."""


def experiment_lines(setup: Setup, found: Outcome, style: Style) -> Iterator[str]:
    """The whole report."""
    plain, first = found.results[0], found.results[1]
    cache = f", prefix cache with blocks of {first.block_size}" if setup.prefix_caching else ""
    boots = len({result.block for result in found.results[1:]})
    yield printable(
        f"vLLM {plain.vllm} ({first.runner}, {plain.device}{cache}), contract {setup.contract_hash} "
        f"({setup.method}), K {setup.k}, {len(setup.prompts)} prompts, boots per arm: {boots}"
    )
    yield from _table(setup, found, style)
    yield from (style.dim(printable(line)) for line in _notes(setup, found))
    yield from (style.warn("warning  ") + printable(line) for line in _warnings(found))


def _table(setup: Setup, found: Outcome, style: Style) -> Iterator[str]:
    heads = ["arm", "tau", f"to {found.base}", PLAIN]
    heads += ["to cold", "prompt tokens cached"] if setup.repeat > 1 else []
    rows = [[_cell(side, column, found) for column in heads] for side in found.sides]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for number, row in enumerate([heads, *rows]):
        text = "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield style.bold(text) if number == 0 else text
        side = found.sides[number - 1] if number else None
        if side is not None and side.passes in ("", "cold"):
            yield from (f"  {_short(line)}" for line in found.said.get(side.arm, ()))
    for entry in found.differences:
        if entry.a.passes != entry.b.passes:
            continue
        if entry.a.arm != found.base:
            yield printable(f"{entry.b.name} to {entry.a.name}: {_change(entry.change)}")
            continue
        for name, change in entry.categories.items():
            yield printable(f"{entry.b.name} to {entry.a.name}, {name}: {_change(change)}")


def _short(line: str) -> str:
    """A change as it is; of a finding that is left, what it finds."""
    if line.startswith("fix "):
        return printable(line)
    return printable(f"left {line.partition(' | ')[0].partition('; cost: ')[0]}")


def _cell(side: Side, column: str, found: Outcome) -> str:
    if column == "arm":
        return printable(side.name)
    if column == "tau":
        return _estimate(side)
    if column == PLAIN:
        equal, of = equal_outputs(found, side)
        return f"{equal} of {of}"
    if column == "prompt tokens cached":
        return f"{side.cached:.0f} of {side.prompt_tokens:.0f}"
    other = (side.arm, "cold") if column == "to cold" else (found.base, side.passes)
    entries = [d for d in found.differences if d.b is side and (d.a.arm, d.a.passes) == other]
    return _change(entries[0].change) if entries else ""


def _estimate(side: Side) -> str:
    estimate = side.estimate
    if estimate is None:
        return "not reported"
    interval = estimate.interval()
    return f"{estimate.value:.3f}" + (f" ± {interval[1] - estimate.value:.3f}" if interval else "")


def _change(change: Change) -> str:
    text = f"{change.value:+.3f}"
    if change.interval is None:
        return f"{text} estimate only"
    text += f" [{change.interval[0]:+.3f}, {change.interval[1]:+.3f}] over {change.basis}"
    return text if change.p is None else f"{text} p={change.p:.2g}"


def equal_outputs(found: Outcome, side: Side) -> tuple[int, int]:
    """How many outputs of a side equal those of plain decoding, and of how many."""
    requests = [r for result in found.results[1:] if result.arm == side.arm for r in result.requests]
    of = sum(side.covers(request.number) for request in requests)
    other = sum(entry.arm == side.arm and side.covers(entry.number) for entry in found.divergences)
    return of - other, of


def _notes(setup: Setup, found: Outcome) -> Iterator[str]:
    yield from TAU_ENGINE.split("; ")
    yield f"greedy, at most {setup.max_new_tokens} new tokens, one request at a time; prompts are paired"
    idle = found.idle
    if idle:
        yield (
            f"all boots of {', '.join(idle)} counted the same: the engine repeats itself, and they are as "
            "good as one boot"
        )
    if any(entry.change.basis == "prompts" for entry in found.differences):
        yield (
            "over prompts: 95 %, for other prompts like these on this engine; it says nothing about other "
            "boots"
        )
    if any(entry.change.basis == "boots" for entry in found.differences):
        yield "over boots: 95 %, Student's or Welch's t as `compare` has it; prompts held fixed"


def _warnings(found: Outcome) -> Iterator[str]:
    if found.left_out:
        yield (
            f"{len(found.left_out)} prompts are left out of every figure and of the records: their output "
            "differs from plain decoding in some boot, and without logits a tie cannot be told from a fault"
        )
        for entry in found.divergences[:SHOWN]:
            place = f"{entry.prompt_id} differs from output token {entry.position} on"
            yield f"{entry.arm}, boot {entry.block}: {place}"
    warm = [side for side in found.sides if side.passes == "cold" and side.cached]
    for side in warm:
        yield f"{side.name}: {side.cached:.0f} tokens per prompt were cached already: prompts share prefixes"
    seen = {
        line
        for entry in found.differences
        for line in entry.comparison.warnings
        if "as good as one boot" not in line
    }
    yield from sorted(seen)
