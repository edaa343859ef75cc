"""Time and memory of comparing a million rounds, in a process of its own.

    python benchmarks/million_rounds.py [--rounds 1000000]

Two arms of 5 boots, 160 prompts, K = 7, one record per request with every round in it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from arm_records import record

BOOTS, PROMPTS, K = 5, 160, 7


def write_arm(path: Path, name: str, rounds: int, rng: np.random.Generator) -> None:
    """One file of an arm; requests of up to 10,000 rounds each."""
    per_cell = rounds // (BOOTS * PROMPTS)
    with path.open("w") as file:
        for boot in range(BOOTS):
            for prompt in range(PROMPTS):
                accepted = (rng.random((per_cell, K)) < 0.65).cumprod(1).sum(1).tolist()
                for low in range(0, per_cell, 10_000):
                    part = tuple(accepted[low : low + 10_000])
                    entry = record(
                        f"b{boot}", f"p{prompt}", proposed=(K,) * len(part), accepted=part, K=K, arm=name
                    )
                    file.write(json.dumps(entry.to_json()) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1_000_000)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory, f"{name}.jsonl") for name in "ab"]
        for file in files:
            write_arm(file, file.stem, rounds // 2, rng)
        size = sum(file.stat().st_size for file in files)
        started = time.perf_counter()
        command = [sys.executable, "-m", "truedraft", "compare", *map(str, files)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{rounds} rounds, {size / 1e6:.1f} MB of records: {seconds:.1f} s wall, "
        f"{usage.ru_utime + usage.ru_stime:.1f} s CPU, {usage.ru_maxrss / 1024:.0f} MB at most"
    )


if __name__ == "__main__":
    main()
