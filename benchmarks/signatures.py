"""What injected faults look like: accepted drafts by position and by context length, for `diagnose`.

    python benchmarks/signatures.py [tiny/dflash …] [--output src/truedraft/diagnose/injected.json]

For every bundled pair, the contract as it is and every fault of `benchmarks/sensitivity.py`: rounds, rounds
that accepted at least i + 1 drafts, and both once more for the nearer and the farther half of each
continuation. The rounds are those of the real loop (`measure.accepted_along`), along the target's greedy
output: of the pair's first evaluation prompts (memorised by target and drafter) and of prompts cut from text
that neither has seen. Pairs that are measured again replace their own entries.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from sensitivity import Bench, Fault, faults

from truedraft import Decoder, InputError
from truedraft.measure import accepted_along
from truedraft.measure.teacher_forced import features

PAIRS = ("dflash", "dflash-full", "dspark", "dflash-speculators", "dspark-bonus", "dspark-anchor", "eagle3")
PROMPT, NEW = 48, 96
"""Tokens of a prompt cut from unseen text, and of its continuation."""

TEXTS = 8
"""Of each kind; a broken drafter takes a round per token."""


def unseen(bench: Bench) -> list[tuple[int, list[int]]]:
    """Prompts of unseen text with the target's own continuation."""
    prompts = [
        text[at : at + PROMPT] for text, _ in bench.unseen for at in range(0, len(text) - PROMPT, PROMPT)
    ][:TEXTS]
    found = Decoder(bench.target).generate(prompts, NEW)
    return [(PROMPT, prompt + list(out.tokens)) for prompt, out in zip(prompts, found, strict=True)]


def signature(bench: Bench, fault: Fault | None, texts: list[tuple[int, list[int]]], taps: list[Any]) -> Any:
    """Rounds and survivors: over all rounds, in the nearer and in the farther half of each continuation."""
    drafter, columns = bench.drafter(fault)
    width = drafter.proposals
    halves = {half: {"rounds": 0, "reached": [0] * width} for half in ("near", "far")}
    for (start, text), rows in zip(texts, taps, strict=True):
        _, accepted = accepted_along(drafter, text, start, rows[:, columns])
        anchor = start
        for count in accepted:
            half = halves["near" if anchor < (start + len(text)) / 2 else "far"]
            half["rounds"] += 1
            for i in range(count):
                half["reached"][i] += 1
            anchor += count + 1
    return halves


def measured(name: str) -> list[dict[str, Any]]:
    """All entries of one pair."""
    bench, out = Bench(name), []
    fresh = unseen(bench)
    with torch.inference_mode():
        sets = {
            "memorised": (bench.texts[:TEXTS], bench.features[:TEXTS]),
            "unseen": (fresh, [features(bench.target, text) for _, text in fresh]),
        }
    for fault in (None, *faults(bench.contract, bench.target_theta)):
        for kind, (texts, taps) in sets.items():
            try:
                halves = signature(bench, fault, texts, taps)
            except InputError as error:
                print(f"{name}: {fault.name if fault else ''}: {error}", file=sys.stderr)
                continue
            axes = [item.partition("=")[0] for item in fault.overrides] if fault else []
            cache = fault.cache.__name__ if fault and fault.cache else ""
            entry = {"pair": name, "family": bench.contract.family, "text": kind}
            entry |= {"fault": fault.name if fault else "", "axes": axes, "cache": cache, **halves}
            out.append(entry)
        print(f"{name}: {fault.name if fault else 'none'}", file=sys.stderr, flush=True)
    return out


def main() -> None:
    """Measure the pairs and write their entries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pairs", nargs="*", default=[f"tiny/{name}" for name in PAIRS])
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--output", type=Path, default=root / "src/truedraft/diagnose/injected.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kept: list[dict[str, Any]] = []
    if given.output.exists():
        kept = json.loads(given.output.read_text())["entries"]
    for name in given.pairs:
        kept = [entry for entry in kept if entry["pair"] != name] + measured(name)
        lines = ",\n".join(json.dumps(entry) for entry in kept)
        given.output.write_text(f'{{"schema": 1, "entries": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
