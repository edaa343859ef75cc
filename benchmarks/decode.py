"""Speed of decoding, as ratios within one process: our engine and transformers, plain and speculative.

    python benchmarks/decode.py [--pair tiny/dflash-full] [--repetitions 5] [--prompts 8] [--json]

Arms take turns in every repetition; ratios are taken within a repetition, then summarised as min/median/max.
`transformers dflash` is `generate(assistant_model=…, speculation_type="dflash")` of transformers; it
runs full-attention DFlash drafters only, so that arm is left out for other pairs. Outputs of all arms
are compared token by token before any time is reported.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from hf_assistant import load_assistant
from truedraft import Decoder, load_pair, resolve
from truedraft.formats import Resolution, evaluation_prompts

Ids = list[int]
Arm = Callable[[Ids, int], Ids]


class Stopwatch:
    """Seconds spent inside wrapped calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its wall time added to `seconds`."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin

        return timed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", default="tiny/dflash-full")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    resolution = resolve(options.pair)
    pair = load_pair(resolution)
    stated, _ = evaluation_prompts(options.pair)
    prompts = [pair.tokenizer(entry["text"]).input_ids for entry in stated[: options.prompts]]
    target_time, draft_time = Stopwatch(), Stopwatch()
    plain, speculative = Decoder(pair.target), Decoder(pair.target, pair.drafter)
    arms: dict[str, Arm] = {
        "truedraft plain": lambda ids, n: plain.generate([ids], n)[0].tokens,
        "truedraft speculative": lambda ids, n: speculative.generate([ids], n)[0].tokens,
    }
    arms |= transformers_arms(resolution)
    differing = check_outputs(arms, prompts, options.max_new_tokens)

    pair.target.forward = target_time.wrap(pair.target.forward)  # type: ignore[method-assign]
    pair.drafter.propose = draft_time.wrap(pair.drafter.propose)  # type: ignore[method-assign]
    speeds: dict[str, list[float]] = {name: [] for name in arms}
    split: dict[str, list[float]] = {"target forward": [], "drafter": [], "outside both": []}
    for repetition in range(options.repetitions):
        names = list(arms) if repetition % 2 == 0 else list(arms)[::-1]
        for name in names:
            target_time.seconds = draft_time.seconds = 0.0
            tokens, seconds = measure(arms[name], prompts, options.max_new_tokens)
            speeds[name].append(tokens / seconds)
            if name == "truedraft speculative":
                split["target forward"].append(target_time.seconds / seconds)
                split["drafter"].append(draft_time.seconds / seconds)
                split["outside both"].append(1 - (target_time.seconds + draft_time.seconds) / seconds)
            print(f"repetition {repetition + 1}: {name} {speeds[name][-1]:.0f} tokens/s", file=sys.stderr)
    report(options, speeds, split, differing)
    return 0


def measure(arm: Arm, prompts: Sequence[Ids], count: int) -> tuple[int, float]:
    begin = time.perf_counter()
    tokens = sum(len(arm(ids, count)) for ids in prompts)
    return tokens, time.perf_counter() - begin


def check_outputs(arms: dict[str, Arm], prompts: Sequence[Ids], count: int) -> list[str]:
    """Run every arm once (the warm-up); names of arms whose output differs from plain decoding."""
    outputs = {name: [arm(ids, count) for ids in prompts] for name, arm in arms.items()}
    wanted = outputs["truedraft plain"]
    return [name for name, found in outputs.items() if found != wanted]


def transformers_arms(resolution: Resolution) -> dict[str, Arm]:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        resolution.target.directory, dtype=torch.float32, local_files_only=True
    )

    def generate(ids: Ids, count: int, **more: Any) -> Ids:
        tensor = torch.tensor([ids])
        output = model.generate(
            tensor, attention_mask=torch.ones_like(tensor), max_new_tokens=count, do_sample=False, **more
        )
        return [int(token) for token in output[0, len(ids) :]]

    arms: dict[str, Arm] = {"transformers plain": generate}
    assistant = dflash_assistant(resolution)
    if assistant is not None:
        arms["transformers dflash"] = lambda ids, n: generate(
            ids, n, assistant_model=assistant, speculation_type="dflash"
        )
    return arms


def dflash_assistant(resolution: Resolution) -> Any:
    """The drafter for transformers' generator, or None if that generator cannot run it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return load_assistant(resolution.contract, resolution.draft.directory, Path(folder))
        except ValueError as error:
            print(f"transformers dflash left out: {error}", file=sys.stderr)
            return None


def report(
    options: argparse.Namespace,
    speeds: dict[str, list[float]],
    split: dict[str, list[float]],
    differing: list[str],
) -> None:
    def summary(values: Sequence[float]) -> dict[str, float]:
        return {"min": min(values), "median": statistics.median(values), "max": max(values)}

    mine = speeds["truedraft speculative"]
    ratios = {
        f"truedraft speculative / {name}": summary([a / b for a, b in zip(mine, values, strict=True)])
        for name, values in speeds.items()
        if name != "truedraft speculative"
    }
    out = {
        "schema": 1,
        "pair": options.pair,
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
        "threads": options.threads,
        "prompts": options.prompts,
        "repetitions": options.repetitions,
        "outputs_that_differ": differing,
        "tokens_per_s": {name: summary(values) for name, values in speeds.items()},
        "ratios": ratios,
        "share_of_speculative_wall_time": {name: summary(values) for name, values in split.items()},
    }
    if options.json:
        print(json.dumps(out))
        return
    print(f"{options.pair}, {options.prompts} prompts, {options.threads} thread(s), {out['versions']}")
    print(f"outputs that differ from plain decoding: {', '.join(differing) or 'none'}")
    for title in ("tokens_per_s", "ratios", "share_of_speculative_wall_time"):
        print(f"{title.replace('_', ' ')} (min / median / max)")
        for name, row in out[title].items():  # type: ignore[attr-defined]
            print(f"  {name:45} {row['min']:8.2f} {row['median']:8.2f} {row['max']:8.2f}")


if __name__ == "__main__":
    sys.exit(main())
