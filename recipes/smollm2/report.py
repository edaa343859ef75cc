"""Acceptance on the evaluation prompts, beside prompt lookup: `python report.py RUN.json`, or several.

RUN.json: what `truedraft run --json` printed for `evaluation/LIST.jsonl`. Per file: outputs that equal plain
decoding, tau with a 95 % interval over prompts, the share of 4-grams that repeat in an output, and the
tau that prompt lookup (transformers' own, n-grams of up to 3 tokens) would have on the same outputs with as
many drafts, with the paired difference.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator
from truedraft.cli._record_input import parse_records
from truedraft.contract import AcceptanceRecord
from truedraft.stats.arms import Arm
from truedraft.stats.tau import over_prompts, tau_of

from drafters.repetition import repetition
from settings import EVALUATION

LONGEST_NGRAM = 3


def lookup_rounds(prompt: Sequence[int], output: Sequence[int], drafts: int) -> tuple[list[int], list[int]]:
    """Drafts proposed and accepted per round if a greedy output is decoded with prompt lookup.

    As `AcceptanceRecord` counts: the first token comes from the prompt's own pass, and drafts behind the end
    count as neither.
    """
    proposed, accepted, done = [], [], 1
    finder = PromptLookupCandidateGenerator(
        num_output_tokens=drafts, max_matching_ngram_size=LONGEST_NGRAM, max_length=sys.maxsize
    )
    while done < len(output):
        text = torch.tensor([[*prompt, *output[:done]]])
        guess = finder.get_candidates(text)[0][0, text.shape[1] :].tolist()
        left = len(output) - done
        right = 0
        while right < min(len(guess), left) and guess[right] == output[done + right]:
            right += 1
        cut = right == left
        proposed.append(right if cut else len(guess))
        accepted.append(right)
        done += right + 1
    return proposed, accepted


def lookup_records(
    records: Sequence[AcceptanceRecord], report: dict[str, Any], prompts: dict[str, list[int]]
) -> Iterator[AcceptanceRecord]:
    """What prompt lookup would have counted on the outputs of a report."""
    outputs = {output["prompt_id"]: output["tokens"] for output in report["outputs"]}
    for record in records:
        name = record.prompt_id
        proposed, accepted = lookup_rounds(prompts[name], outputs[name], record.K)
        yield replace(record, arm="lookup", proposed=tuple(proposed), accepted=tuple(accepted), nodes=())


def row(path: Path) -> str:
    """One line of the table."""
    report = json.loads(path.read_text())
    lines = enumerate((json.dumps(entry).encode() for entry in report["records"]), 1)
    records = parse_records(lines, str(path))
    if any(record.verification != "greedy" or record.tree_budget for record in records):
        raise SystemExit(f"{path}: found sampled output or draft trees, expected a greedy run of chains")
    category = records[0].category
    texts = (EVALUATION / f"{category}.jsonl").read_text().splitlines()
    prompts = {entry["id"]: entry["tokens"] for entry in map(json.loads, texts)}
    names = [record.prompt_id for record in records if record.accepted]
    if len(names) < 2:
        raise SystemExit(f"{path}: found {len(names)} prompts with a round, expected at least 2")
    drafter = Arm("drafter", records)
    lookup = Arm("lookup", lookup_records(records, report, prompts))
    cells = [
        path.stem,
        str(len(records)),
        f"{report['lossless']['identical']} + {report['lossless']['ties']} ties",
    ]
    for arm in (drafter, lookup):
        estimate = tau_of(arm, names)
        low, high = estimate.interval()
        cells.append(f"{estimate.value:.2f} [{low:.2f}, {high:.2f}]")
    difference = over_prompts(lookup, drafter, names)
    low, high = difference.interval()
    cells.append(f"{difference.mean:+.2f} [{low:+.2f}, {high:+.2f}]")
    repeats = [repetition(output["tokens"]) for output in report["outputs"]]
    cells.append(f"{sum(repeats) / len(repeats):.2f}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    print("| run | prompts | as plain | tau | tau of prompt lookup | difference | repetition |")
    print("|---|---|---|---|---|---|---|")
    for path in sys.argv[1:]:
        print(row(Path(path)))


if __name__ == "__main__":
    main()
