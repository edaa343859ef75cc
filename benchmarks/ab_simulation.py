"""Whether `compare` and `plan` keep their promises, on an engine whose truth is known (`tests/ab_model.py`).

    python benchmarks/ab_simulation.py --json benchmarks/ab_simulation.json [--scale 1.0]

A/A false alarms, coverage of 95 % intervals, power against what `plan` says. Seeds are fixed; `--scale 0.1`
takes a tenth of the boots. About 20 minutes on one busy core.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from ab_model import Counts, Engine, lengths, simulate
from truedraft.stats.components import ArmEstimate, components
from truedraft.stats.contrast import independent, paired
from truedraft.stats.figures import Sums
from truedraft.stats.pigeonhole import pigeonhole
from truedraft.stats.plan import Spread, spread_of_sums

PROMPTS = 160
SETS = 8
FEW = (2, 3, 5, 8)
MANY = (10, 16)
EFFECTS = {2: 0.25, 3: 0.14, 5: 0.09, 8: 0.065}
"""Logits by which arm B is better, so that about 80 % of the comparisons with so many boots see it."""
UNEVEN = 0.5
"""The effect on a prompt varies by this share of its mean."""
FIGURES = ("tau", "tau_macro", "survival")


def splits(pool: Counts, boots: int, start: int = 0) -> Iterator[slice]:
    """Disjoint groups of boots of a pool."""
    for low in range(start, len(pool.accepted) - boots + 1, boots):
        yield slice(low, low + boots)


def share(hits: int, of: int) -> dict[str, float]:
    """A share with its standard error."""
    rate = hits / of
    return {"share": round(rate, 4), "error": round(float(np.sqrt(rate * (1 - rate) / of)), 4), "of": of}


class Tally:
    """Counts hits per key."""

    def __init__(self) -> None:
        self.hits: dict[str, int] = {}
        self.of: dict[str, int] = {}

    def add(self, key: str, hit: bool) -> None:
        """One more case of `key`."""
        self.hits[key] = self.hits.get(key, 0) + bool(hit)
        self.of[key] = self.of.get(key, 0) + 1

    def table(self) -> dict[str, dict[str, float]]:
        """Share of hits per key."""
        return {key: share(self.hits[key], self.of[key]) for key in sorted(self.of)}


def few_boots(engine: Engine, scale: float) -> dict[str, Any]:
    """Alarms, coverage and power of t over boots, on `SETS` sets of prompts that stay fixed."""
    alarms, cover, seen = Tally(), Tally(), Tally()
    promised: dict[str, list[float]] = {}
    plans: list[tuple[Spread, float, Counts]] = []
    naive, edge = Tally(), Tally()
    for number in range(SETS):
        rng = np.random.default_rng([7, number])
        rounds, difficulty = lengths(PROMPTS, rng), engine.prompt * rng.standard_normal(PROMPTS)
        pool = simulate(engine, difficulty, rounds, int(8000 * scale), rng)
        uneven = 1 + UNEVEN * rng.standard_normal(PROMPTS)
        spread = spread_of_sums([pool.sums("tau", slice(None))])
        one_boot(pool, naive)
        for boots in FEW:
            for a, b in halves(pool, boots):
                for figure in FIGURES:
                    test = independent(pool.sums(figure, a).per_boot, pool.sums(figure, b).per_boot)
                    alarms.add(f"{figure}, {boots} boots", test.p < 0.05)
            shifted = simulate(engine, difficulty + EFFECTS[boots] * uneven, rounds, int(2000 * scale), rng)
            for figure in FIGURES:
                of_a, of_b = (c.sums(figure, slice(None)).per_boot for c in (pool, shifted))
                truth, ratio = float(of_b.mean() - of_a.mean()), float(of_b.mean() / of_a.mean())
                for at in splits(shifted, boots):
                    test = independent(of_a[at], of_b[at])
                    low, high = test.interval()
                    cover.add(f"difference, {figure}, {boots} boots", low <= truth <= high)
                    between = test.ratio_interval()
                    cover.add(
                        f"ratio, {figure}, {boots} boots",
                        between is None or between[0] <= ratio <= between[1],
                    )
                    if figure == "tau":
                        seen.add(f"{boots} boots", test.p < 0.05)
                        edge.add(f"{boots} boots", test.p_beyond(ratio - 1) < 0.05)
                if figure == "tau":
                    promised.setdefault(f"{boots} boots", []).append(spread.power(ratio - 1, boots, PROMPTS))
                    if boots == 5:
                        plans.append((spread, ratio - 1, pool))
    return {
        "one boot per arm, alarms": naive.table(),
        "alarms": alarms.table(),
        "equivalence claimed at the margin's edge": edge.table(),
        "coverage": cover.table(),
        "power": {
            key: {**value, "promised": round(float(np.mean(promised[key])), 4)}
            for key, value in seen.table().items()
        },
        "plan": pilots(plans),
        "engine": shape_of(pool, spread),
    }


def halves(pool: Counts, boots: int) -> Iterator[tuple[slice, slice]]:
    for both in splits(pool, 2 * boots):
        yield slice(both.start, both.start + boots), slice(both.start + boots, both.stop)


def one_boot(pool: Counts, naive: Tally) -> None:
    """What tests that know nothing of boots do with equal arms of one boot."""
    steps = float(pool.rounds.sum())
    for a, b in list(halves(pool, 1))[:1000]:
        x, y = pool.sums("tau", a), pool.sums("tau", b)
        distance = abs(float(y.per_boot[0] - x.per_boot[0]))
        errors = {
            "every round independent": np.sqrt(2 * pool.variance / steps),
            "clustered by prompt, unpaired": np.hypot(ArmEstimate.of(x).error, ArmEstimate.of(y).error),
            "clustered by prompt, paired": np.sqrt(
                components(y.per_boot - x.per_boot, y.residuals - x.residuals).prompts
            ),
        }
        for name, error in errors.items():
            naive.add(name, bool(2 * stats.t.sf(distance / error, PROMPTS - 1) < 0.05))


def shape_of(pool: Counts, spread: Spread) -> dict[str, float]:
    """The figures by which the engine can be compared with `measurement.md`."""
    residuals = pool.sums("tau", slice(None)).residuals.mean(0)
    return {
        "tau": round(spread.tau, 3),
        "boot sd, of tau": round(spread.between**0.5, 4),
        "cell sd": round(spread.cells**0.5 * spread.tau, 3),
        "prompt sd": round(float(residuals.std()), 3),
        "variance of a round": round(pool.variance, 2),
    }


def pilots(plans: list[tuple[Spread, float, Counts]]) -> dict[str, dict[str, float]]:
    """Power that is reached with the boots that `plan` asks for, averaged over pilots; promised 80 %.

    What n boots reach is the formula, with the pool's own spread; "power" holds it against the simulation.
    """
    out = {}
    for boots in (2, 3, 5, 8):
        reached, promised, asked, exact = [], [], [], []
        for truth, effect, pool in plans:
            for at in list(splits(pool, boots))[:40]:
                pilot = spread_of_sums([pool.sums("tau", at)])
                need = pilot.boots_needed(effect, PROMPTS) or 1000
                bare = pilot.boots_needed(effect, PROMPTS, exact=True) or 1000
                asked.append(need)
                promised.append(pilot.power(effect, need, PROMPTS))
                reached.append(truth.power(effect, need, PROMPTS))
                exact.append(truth.power(effect, bare, PROMPTS))
        out[f"pilot of {boots} boots"] = {
            "reached": round(float(np.mean(reached)), 4),
            "promised": round(float(np.mean(promised)), 4),
            "boots asked, median": float(np.median(asked)),
            "reached if the pilot's spread is taken as exact": round(float(np.mean(exact)), 4),
            "pilots": len(asked),
        }
    return out


def other_prompts(engine: Engine, scale: float) -> dict[str, Any]:
    """Power with 320 prompts, promised from a pilot of 160 others."""
    rng = np.random.default_rng(11)
    rounds, difficulty = lengths(320, rng), engine.prompt * rng.standard_normal(320)
    few = rng.permutation(320)[:160]
    few.sort()
    pilot = simulate(engine, difficulty[few], rounds[few], int(2000 * scale), rng)
    spread = spread_of_sums([pilot.sums("tau", slice(None))])
    a = simulate(engine, difficulty, rounds, int(2500 * scale), rng).sums("tau", slice(None)).per_boot
    b = (
        simulate(engine, difficulty + EFFECTS[5], rounds, int(2500 * scale), rng)
        .sums("tau", slice(None))
        .per_boot
    )
    tally = Tally()
    for low in range(0, len(a) - 4, 5):
        tally.add("5 boots", independent(a[low : low + 5], b[low : low + 5]).p < 0.05)
    effect = float(b.mean() / a.mean()) - 1
    return {**tally.table()["5 boots"], "promised": round(spread.power(effect, 5, 320), 4)}


def many_boots(engine: Engine, scale: float) -> dict[str, Any]:
    """The two-way bootstrap and the intervals of single arms: prompts are drawn anew in every comparison."""
    alarms, cover, arms = Tally(), Tally(), Tally()
    for boots in MANY:
        rng = np.random.default_rng([13, boots])
        batch, kept = 40, []
        for _ in range(max(1, int(1000 * scale) // batch)):
            rounds = lengths(PROMPTS, rng)
            difficulty = np.repeat(engine.prompt * rng.standard_normal((batch, PROMPTS)), boots, axis=0)
            uneven = np.repeat(1 + UNEVEN * rng.standard_normal((batch, PROMPTS)), boots, axis=0)
            plain = [simulate(engine, difficulty, rounds, batch * boots, rng) for _ in range(2)]
            better = simulate(engine, difficulty + 0.2 * uneven, rounds, batch * boots, rng)
            for i in range(batch):
                at = slice(i * boots, (i + 1) * boots)
                a, same, b = (counts.sums("tau", at) for counts in (*plain, better))
                aa, ab = (pigeonhole([(a, other)], pairs=False, resamples=2000)[0] for other in (same, b))
                alarms.add(f"two-way bootstrap, {boots} boots", aa.p < 0.05)
                fixed = independent(a.per_boot, b.per_boot)
                kept.append((ab, fixed, a))
        truth = float(np.mean([ab.difference for ab, _, _ in kept]))
        ratio = float(np.mean([ab.b for ab, _, _ in kept]) / np.mean([ab.a for ab, _, _ in kept]))
        level = float(np.mean([ab.a for ab, _, _ in kept]))
        for ab, fixed, a in kept:
            between = ab.ratio_interval()
            assert between is not None
            cover.add(f"two-way bootstrap, difference, {boots} boots", within(ab.interval(), truth))
            cover.add(f"two-way bootstrap, ratio, {boots} boots", within(between, ratio))
            cover.add(f"t over boots, as if for all prompts, {boots} boots", within(fixed.interval(), truth))
            if boots == MANY[0]:
                for count in (1, *FEW, 10):
                    some = Sums("tau", None, a.numerator[:count], a.denominator[:count], 1.0)
                    interval = ArmEstimate.of(some).interval()
                    assert interval is not None
                    arms.add(f"tau of one arm, {count} boots", within(interval, level))
    return {"alarms": alarms.table(), "coverage": cover.table(), "one arm": arms.table()}


def within(interval: tuple[float, float], value: float) -> bool:
    return interval[0] <= value <= interval[1]


def boot_level(engine: Engine, scale: float) -> dict[str, Any]:
    """Alarms at the level of boots, whose figures are normal: unequal spread, pairs that share a drift.

    The engine plays no part.
    """
    rng, out, times = np.random.default_rng(17), dict[str, Any](), int(6000 * scale)
    for ratio in (1.0, 2.0, 3.0):
        for n, m in ((2, 2), (3, 3), (5, 5), (8, 8), (2, 3), (3, 2), (3, 5), (5, 3), (2, 8), (8, 2)):
            tally = Tally()
            for a, b in zip(
                rng.normal(3, 0.04, (times, n)), rng.normal(3, 0.04 * ratio, (times, m)), strict=True
            ):
                tally.add("alarms", independent(a, b).p < 0.05)
            out[f"sd of B {ratio:g} x that of A, {n} and {m} boots"] = tally.table()["alarms"]
    for correlation in (0.0, 0.5, 0.8):
        for n in FEW:
            tally = Tally()
            for _ in range(times):
                drift = rng.normal(0, correlation**0.5, n)
                a, b = (drift + rng.normal(0, (1 - correlation) ** 0.5, n) for _ in range(2))
                shift = 3.2 / n**0.5 * 2**0.5  # seen by about 80 % of independent boots, were there many
                tally.add("independent, alarms", independent(a, b).p < 0.05)
                tally.add("paired, alarms", paired(a, b).p < 0.05)
                tally.add("independent, power", independent(a, b + shift).p < 0.05)
                tally.add("paired, power", paired(a, b + shift).p < 0.05)
            out[f"pairs correlate {correlation:g}, {n} boots"] = {
                k: v["share"] for k, v in tally.table().items()
            }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this one, kept in --json")
    options = parser.parse_args()
    started, result = time.time(), dict[str, Any]()
    result |= {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    result["scale"] = options.scale
    if options.part and options.json and options.json.exists():
        result |= json.loads(options.json.read_text())
    for name in options.part or PARTS:
        result[name] = PARTS[name](Engine(), options.scale)
        print(f"{name}: {time.time() - started:.0f} s", file=sys.stderr)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


PARTS: dict[str, Callable[[Engine, float], dict[str, Any]]] = {
    "few boots": few_boots,
    "other prompts": other_prompts,
    "many boots": many_boots,
    "boots alone": boot_level,
}


if __name__ == "__main__":
    main()
