"""The plugin inside vLLM on CPU: healthy pairs give no finding, broken ones the right one, `fix` mends them.

Runs `vllm_trace.py` with `TRUEDRAFT` set, in the environment that `TRUEDRAFT_VLLM_PYTHON` names (README.md
here), in which truedraft is installed too. After a fix the drafts must equal truedraft's own under the
trained contract, in every round.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from broken_configs import Config, all_full, hide_ids, norm_after, other_slot
from test_vllm import (
    NEW_TOKENS,
    SCRIPT,
    TIMEOUT_S,
    TINY,
    compare,
    plain_outputs,
    prompts,
    truedraft_rounds,
    vllm_python,
)

pytestmark = pytest.mark.vllm

_FINDING = re.compile(r"\] truedraft (TD\d+)(?: ([a-z_.]+))?: (.*)$", re.MULTILINE)
_FIXED = re.compile(r"\] truedraft fix (?!leaves)([a-z_.]+)[^:]*: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """A drafter, what is broken in a copy of its config, and what the plugin must say of it.

    `overrides`: the truth, where the broken files do not state it (`TRUEDRAFT_SET`). `findings`: codes and
    axes with `warn`; `left`: with `fix`; `mended`: axes that `fix` reports. `besides`: overrides for what
    `fix` leaves, under which truedraft's drafts are those of the mended engine.
    """

    drafter: str
    method: str
    runner: str = "v1"
    breaks: Callable[[Config], None] | None = None
    overrides: str = ""
    findings: frozenset[tuple[str, str]] = frozenset()
    left: frozenset[tuple[str, str]] = frozenset()
    mended: frozenset[str] = frozenset()
    besides: tuple[str, ...] = ()


def _wrong_values(config: Config) -> None:
    config["dflash_config"] |= {"target_layer_ids": [0, 3, 5], "mask_token_id": 2}
    config["rope_theta"] = 1e6


def _no_theta(config: Config) -> None:
    del config["rope_theta"]


_K_NORM = ("TD426", "")
_TRUTH = "taps.layers=1,4,6 block.mask_token_id=1 rope.theta=10000"
CASES = {
    "eagle3": Case("eagle3", "eagle3"),
    "dflash-full": Case("dflash-full", "dflash", findings=frozenset({_K_NORM}), mended=frozenset({"k_norm"})),
    "dflash-full, eagle_config without ids": Case(
        "dflash-full",
        "dflash",
        breaks=hide_ids,
        findings=frozenset({("TD401", "taps.layers"), _K_NORM}),
        mended=frozenset({"taps.layers", "k_norm"}),
    ),
    "dflash-full, wrong ids, mask and theta": Case(
        "dflash-full",
        "dflash",
        breaks=_wrong_values,
        overrides=_TRUTH,
        findings=frozenset(
            {("TD401", "taps.layers"), ("TD404", "block.mask_token_id"), ("TD408", "rope.theta"), _K_NORM}
        ),
        mended=frozenset({"taps.layers", "block.mask_token_id", "rope.theta", "k_norm"}),
    ),
    "dflash-speculators, full layers": Case(
        "dflash-speculators",
        "dflash",
        breaks=all_full,
        findings=frozenset({("TD407", "attention.causal"), _K_NORM}),
        mended=frozenset({"attention.causal", "k_norm"}),
    ),
    "eagle3, norm_before_residual false": Case(
        "eagle3",
        "eagle3",
        breaks=norm_after,
        overrides="chain.norm_before_residual=true",
        findings=frozenset({("TD410", "chain.norm_before_residual")}),
        mended=frozenset({"chain.norm_before_residual"}),
    ),
    "dspark": Case("dspark", "dspark", "v2", findings=frozenset({_K_NORM}), mended=frozenset({"k_norm"})),
    "dspark-bonus, sample_from_anchor true": Case(
        "dspark-bonus",
        "dspark",
        "v2",
        breaks=other_slot,
        overrides="block.first_slot=unused block.width=8",
        findings=frozenset({("TD403", "block.first_slot"), ("TD403", "block.width"), _K_NORM}),
        mended=frozenset({"block.first_slot", "k_norm"}),
    ),
    "dflash-speculators as shipped": Case(
        "dflash-speculators",
        "dflash",
        "v2",
        findings=frozenset({("TD406", "attention.window_rule"), ("TD407", "attention.causal"), _K_NORM}),
        left=frozenset({("TD406", "attention.window_rule")}),
        mended=frozenset({"attention.causal", "k_norm"}),
        besides=("attention.window_rule=query",),
    ),
}


@dataclass
class Outcome:
    """What a run left behind."""

    log: str
    trace: Config
    seconds: float

    @property
    def findings(self) -> frozenset[tuple[str, str]]:
        return frozenset((code, axis or "") for code, axis, _ in _FINDING.findall(self.log))

    @property
    def fixed(self) -> frozenset[str]:
        return frozenset(axis for axis, _ in _FIXED.findall(self.log))


def broken_copy(case: Case, folder: Path) -> Path:
    """The bundled drafter, or a copy with another config."""
    bundled = TINY / case.drafter
    if case.breaks is None:
        return bundled
    config = json.loads((bundled / "config.json").read_text())
    case.breaks(config)
    copy = folder / "draft"
    shutil.copytree(bundled, copy)
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def run(case: Case, draft: Path, folder: Path, mode: str) -> Outcome:
    """Trace the case with the plugin in `mode`."""
    ids, out = folder / "ids.json", folder / f"{mode}.json"
    ids.write_text(json.dumps(prompts()))
    k = 5 if case.method == "eagle3" else 7
    command: list[str | Path] = [vllm_python(), SCRIPT, TINY / "target", draft, "--method", case.method]
    command += ["--runner", case.runner, "--k", str(k), "--prompts", ids, "--out", out]
    command += ["--max-new-tokens", str(NEW_TOKENS if mode == "fix" else 1)]
    environment = {**os.environ, "TRUEDRAFT": mode, "TRUEDRAFT_SET": case.overrides, "NO_COLOR": "1"}
    environment.pop("PYTHONPATH", None)
    started = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment
    )
    log = done.stdout + done.stderr
    assert done.returncode == 0, log[-4000:]
    return Outcome(log, json.loads(out.read_text()), time.monotonic() - started)


def test_error_stops_the_engine_with_one_line(tmp_path: Path) -> None:
    case = CASES["dflash-full, eagle_config without ids"]
    with pytest.raises(AssertionError, match=r"truedraft refuses to start \(TRUEDRAFT=error\): taps\.layers"):
        run(case, broken_copy(case, tmp_path), tmp_path, "error")


@pytest.fixture(scope="module")
def results() -> Iterator[list[str]]:
    """Rows of the table, written to `TRUEDRAFT_PLUGIN_RESULTS` if every case passed."""
    rows: list[str] = []
    yield rows
    path = os.environ.get("TRUEDRAFT_PLUGIN_RESULTS")
    if path and len(rows) == 2 * len(CASES):
        Path(path).write_text(report(rows))


VERSIONS: dict[str, str] = {}


@pytest.mark.parametrize("name", CASES)
def test_warn_finds_what_is_broken_and_nothing_else(name: str, tmp_path: Path, results: list[str]) -> None:
    case = CASES[name]
    outcome = run(case, broken_copy(case, tmp_path), tmp_path, "warn")
    assert outcome.findings == case.findings, outcome.log[-6000:]
    assert "axes of the loaded drafter compared with contract" in outcome.log
    VERSIONS.update(outcome.trace["versions"])
    said = ", ".join(sorted(" ".join(entry).strip() for entry in outcome.findings)) or "nothing"
    results.append(f"| {name} | {case.runner.upper()} | warn | {said} | - | {round(outcome.seconds)} |")


@pytest.mark.parametrize("name", CASES)
def test_fix_makes_the_drafts_those_of_the_contract(name: str, tmp_path: Path, results: list[str]) -> None:
    case = CASES[name]
    draft = broken_copy(case, tmp_path)
    outcome = run(case, draft, tmp_path, "fix")
    assert outcome.fixed == case.mended, outcome.log[-6000:]
    assert outcome.findings == case.left
    traced = outcome.trace["generate"]
    assert [entry["output"] for entry in traced] == plain_outputs()
    theirs = [{one["anchor_position"]: one["draft"] for one in entry["rounds"]} for entry in traced]
    rounds = sum(map(len, theirs))
    overrides = (*case.overrides.split(), *case.besides)
    assert compare(theirs, truedraft_rounds(draft, overrides)) == (0, rounds)
    said = ", ".join(sorted(outcome.fixed)) or "nothing to mend"
    row = (
        f"| {name} | {case.runner.upper()} | fix | {said} | {rounds} of {rounds} | {round(outcome.seconds)} |"
    )
    results.append(row)


def report(rows: list[str]) -> str:
    """The results as Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in VERSIONS.items())
    return "\n".join(
        [
            "# Results of the plugin in vLLM on CPU",
            "",
            f"Written by the test run of {date.today().isoformat()} with {versions}.",
            "",
            "`warn`: the findings, all of them. `fix`: what was mended, and in how many rounds the drafts",
            "equal truedraft's under the trained contract (greedy, fp32, 16 prompts of 48 new tokens).",
            "",
            "| case | runner | mode | said | rounds equal | s |",
            "|---|---|---|---|---|---|",
            *sorted(rows),
            "",
        ]
    )
