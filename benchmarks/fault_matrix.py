"""Injected faults, and what `probe` and `check` make of them: the fault matrix.

    python benchmarks/fault_matrix.py RESULTS.jsonl [--pairs tiny/dflash,…] [--kinds single,healthy,…]
    python benchmarks/fault_matrix.py RESULTS.jsonl --page docs/fault-matrix.md

Every bundled pair is resolved with wrong values of its axes (`--set`), as a reader or an engine with that
fault would resolve it, and probed. `healthy`: no fault, 20 seeds. `single`: every fault of
`sensitivity.faults` that an override can express. `double`: one fault of each of two axes, all pairs of axes
of which a fault costs at least 2 %. `triple`: 12 such triples, drawn by seed. Results are appended as they
come, and those that are there already are not run again, so that it can be stopped and resumed.

The cost of a fault is the loss of accepted drafts per anchor against the true wiring, in per cent of its tau,
on 16 anchors of each of the 24 prompts. The probe knows nothing of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from fault_page import write_page
from sensitivity import faults

from truedraft.contract import InputError
from truedraft.formats import evaluation_prompts, locate, resolve
from truedraft.models.load import load_tokenizer
from truedraft.models.load_target import load_target_model
from truedraft.probe import Settings, Wiring
from truedraft.probe._run import investigate, tapped
from truedraft.probe.evidence import compare, mean_tau
from truedraft.probe.features import FeatureStore
from truedraft.probe.sample import Look, Sample

PAIRS = ("dflash", "dflash-full", "dspark", "dflash-speculators", "dspark-bonus", "dspark-anchor", "eagle3")
KINDS = ("single", "healthy", "double", "triple")
SEEDS, TRIPLES = 20, 12
WORTH = 0.02
"""Share of tau from which a fault's cost counts."""


@dataclass(frozen=True)
class Case:
    """A pair, a kind, a seed, and the overrides that are wrong."""

    pair: str
    kind: str
    seed: int
    names: tuple[str, ...]
    overrides: tuple[str, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """The faulty axes."""
        return tuple(dict.fromkeys(item.partition("=")[0] for item in self.overrides))


class Bench:
    """One pair: its target's features of all layers, once for all cases."""

    def __init__(self, pair: str) -> None:
        self.pair = pair
        self.contract = resolve(pair).contract
        directory, _ = locate(pair)
        assert directory is not None
        model = load_target_model(directory, dtype=torch.float32, device="cpu")
        self.theta = float(model.config.rope_parameters["rope_theta"])
        tokenizer = load_tokenizer(directory)
        self.special = tuple(tokenizer.all_special_ids)
        entries, self.count = evaluation_prompts(pair)
        self.prompts = [tuple(tokenizer(entry["text"]).input_ids) for entry in entries]
        taps = [(layer, "residual") for layer in range(-1, self.contract.target.layers)]
        self.target = tapped(self.contract, model, taps)
        self.store = FeatureStore(taps, self.contract.target.hidden_size, 2**30)
        self.first = self.sample(0)
        self.first.take(Look(0, len(self.prompts), 16))

    def sample(self, seed: int) -> Sample:
        """A fresh sample; the texts are made once."""
        sample = Sample(self.target, self.store, self.prompts, self.count, seed)
        sample.reuse(self.first) if hasattr(self, "first") else None
        return sample

    def wiring(self, overrides: tuple[str, ...]) -> Wiring:
        """The pair under these overrides."""
        wiring = Wiring(self.pair, None, overrides, self.special)
        wiring.attach(*self.first.tables)
        return wiring

    def faults(self) -> Iterator[Case]:
        """Every single fault, those of caches left out."""
        for fault in faults(self.contract, self.theta):
            if fault.overrides:
                yield Case(self.pair, "single", 0, (fault.name,), fault.overrides)

    def cost(self, case: Case) -> tuple[float, float, float]:
        """Tau under the true wiring, under the faults, and the share of the former that they cost."""
        right, wrong = self.wiring(()).wire({}), self.wiring(case.overrides).wire({})
        self.first.proposals = max(right.drafter.proposals, wrong.drafter.proposals)
        self.first.take(Look(0, len(self.prompts), 16))
        now, other = self.first.scores(right), self.first.scores(wrong)
        lost = compare("", None, now, other).accepted.mean
        tau = mean_tau(now).mean
        return tau, mean_tau(other).mean, -lost / tau

    def run(self, case: Case) -> dict[str, Any]:
        """Probe one case."""
        tau, faulty, cost = self.cost(case)
        report = investigate(
            self.wiring(case.overrides), self.sample(case.seed), Settings(seed=case.seed, budget=600)
        )
        return {
            **asdict(case),
            "axes": case.axes,
            "tau": tau,
            "tau_faulty": faulty,
            "cost": cost,
            "contradicted": [v.axis for v in report.contradicted],
            "verdicts": {v.axis: [v.verdict, v.reason] for v in report.axes},
            "restored": all(
                report.best.get(axis) == self.contract.get(axis) for axis in case.axes if axis in report.best
            ),
            "best": {axis: repr(value) for axis, value in report.best.items()},
            "best_tau": report.best_tau.mean,
            "passes": report.seconds.passes,
            "out_of_time": report.out_of_time,
        }


def cases(bench: Bench, kinds: tuple[str, ...], done: list[dict[str, Any]]) -> Iterator[Case]:
    """The cases of a pair; doubles and triples need the costs of the singles, which come first."""
    if "single" in kinds:
        yield from bench.faults()
    if "healthy" in kinds:
        for seed in range(SEEDS):
            yield Case(bench.pair, "healthy", seed, (), ())
    one_each: dict[str, dict[str, Any]] = {}
    for result in done:
        alone = result["kind"] == "single" and result["pair"] == bench.pair and len(result["axes"]) == 1
        if alone and result["cost"] >= WORTH and result["axes"][0] != "block.proposals":
            one_each.setdefault(result["axes"][0], result)
    groups = {"double": list(itertools.combinations(one_each.values(), 2))}
    triples = list(itertools.combinations(one_each.values(), 3))
    groups["triple"] = random.Random(bench.pair).sample(triples, min(TRIPLES, len(triples)))
    for kind, found in groups.items():
        for parts in found if kind in kinds else ():
            names = tuple(name for part in parts for name in part["names"])
            overrides = tuple(item for part in parts for item in part["overrides"])
            yield Case(bench.pair, kind, 0, names, overrides)


def main() -> None:
    """Run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--pairs", default=",".join(f"tiny/{name}" for name in PAIRS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    done = [json.loads(line) for line in lines if line.strip()]
    if given.page is not None:
        write_page(given.page, done)
        return
    kinds = tuple(given.kinds.split(","))
    for pair in given.pairs.split(","):
        bench = Bench(pair)
        known = {(r["pair"], r["kind"], r["seed"], tuple(r["overrides"])) for r in done}
        for kind in kinds:
            for case in cases(bench, (kind,), done):
                if (case.pair, case.kind, case.seed, case.overrides) in known:
                    continue
                try:
                    result = bench.run(case)
                except InputError as error:
                    print(pair, case.names, "refused:", error, file=sys.stderr, flush=True)
                    continue
                done.append(json.loads(json.dumps(result)))
                with given.results.open("a") as out:
                    out.write(json.dumps(result) + "\n")
                print(
                    pair,
                    kind,
                    case.seed,
                    case.names,
                    f"{result['cost']:.1%}",
                    result["contradicted"],
                    flush=True,
                )


if __name__ == "__main__":
    main()
