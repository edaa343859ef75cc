"""Cost of taking rejected rows back, against one extra forward of the target: ratios within one process.

    python benchmarks/rollback.py [--families qwen3_5 deepseek_v4 …] [--repetitions 15] [--rows 300] [--json]

Each repetition runs one round behind `--rows` committed rows: a forward of 9 rows, then a commit of 5 of
them. Beside it, what needs no rollback: a copy of the state before the round, and the 5 accepted rows run
again from it. `large` models have the same structure at a size where arithmetic outweighs the
interpreter. Random weights; process time, so that other work on the machine matters less; min/median/max.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "models"))
from founding_models import FAMILIES, random_weights, small_config, text

from truedraft.decode import Batch
from truedraft.models import StatefulTarget
from truedraft.models.stateful_cache import StatefulCache

LARGE: dict[str, dict[str, Any]] = {
    "qwen3_5": {
        "hidden_size": 512,
        "num_hidden_layers": 12,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 3,
        "intermediate_size": 1536,
        "num_attention_heads": 8,
        "head_dim": 64,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
    },
    "deepseek_v4": {
        "hidden_size": 256,
        "num_hidden_layers": 9,
        "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4],
        "moe_intermediate_size": 128,
        "n_routed_experts": 16,
        "num_experts_per_tok": 4,
    },
}
DRAFTED, KEPT = 9, 5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-large", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cases = [(family, {}) for family in options.families]
    if not options.no_large:
        cases += [(family, LARGE[family]) for family in options.families if family in LARGE]
    results = [measure(family, changes, options.rows, options.repetitions) for family, changes in cases]
    if options.json:
        print(json.dumps({"machine": machine(options), "results": results}, indent=1))
        return 0
    print(
        f"{'':20} {'weights':>8} {'9 rows':>9} {'commit':>7}   commit / forward    copy and rerun / forward"
    )
    for row in results:
        commit, rerun = (" / ".join(f"{x:.3f}" for x in row[key]) for key in ("commit", "copy_and_rerun"))
        size, forward, own = row["parameters"] / 1e6, row["forward_ms"], row["commit_ms"]
        print(f"{row['model']:20} {size:7.1f}M {forward:7.1f}ms {own:5.2f}ms  {commit}  {rerun}")
    return 0


def machine(options: argparse.Namespace) -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": options.threads,
        "rows": options.rows,
        "drafted": DRAFTED,
        "kept": KEPT,
        "repetitions": options.repetitions,
    }


def measure(family: str, changes: dict[str, Any], rows: int, repetitions: int) -> dict[str, Any]:
    """Ratios to the same repetition's forward of 9 rows."""
    torch.manual_seed(0)
    config = small_config(family, **changes)
    model = random_weights(transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32))
    target = StatefulTarget(model, (1,))
    tokens = torch.tensor(text(rows + DRAFTED))
    cache = target.new_cache()
    sequence = cache.open()
    forwards, commits, reruns = [], [], []
    with torch.inference_mode():
        run(target, cache, tokens[:rows], 0)
        cache.commit(sequence, range(rows))
        for number in range(repetitions + 2):
            state, again = snapshot(cache), snapshot(cache)
            forward = seconds(lambda state=state: run(target, state, tokens[rows:], rows))
            commit = seconds(lambda state=state: state.commit(sequence, range(KEPT)))
            rerun = seconds(lambda: snapshot(cache))
            rerun += seconds(lambda again=again: run(target, again, tokens[rows : rows + KEPT], rows))
            if number >= 2:  # the first ones warm up
                forwards.append(forward)
                commits.append(commit)
                reruns.append(rerun)
    return {
        "model": family + (" (large)" if changes else ""),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "forward_ms": 1e3 * statistics.median(forwards),
        "commit_ms": 1e3 * statistics.median(commits),
        "commit": summary([a / b for a, b in zip(commits, forwards, strict=True)]),
        "copy_and_rerun": summary([a / b for a, b in zip(reruns, forwards, strict=True)]),
    }


def run(target: StatefulTarget, cache: StatefulCache, ids: torch.Tensor, first: int) -> None:
    """One forward of the rows `ids` at position `first` of the only sequence."""
    positions = torch.arange(first, first + len(ids))
    target.forward(Batch(ids, positions, (0, len(ids)), (0,)), cache)


def snapshot(cache: StatefulCache) -> StatefulCache:
    """A copy of the state of all sequences."""
    out = copy.copy(cache)
    out._sequences = copy.deepcopy(cache._sequences)
    return out


def seconds(call: Callable[[], object]) -> float:
    """Process time of one call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def summary(values: list[float]) -> list[float]:
    """Smallest, median, largest."""
    return [min(values), statistics.median(values), max(values)]


if __name__ == "__main__":
    sys.exit(main())
