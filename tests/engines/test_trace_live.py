"""Live traces: the plugin in vLLM records, `trace diff` names what vLLM's CPU build does otherwise.

Runs `record_traces.py` in the environment that `TRUEDRAFT_VLLM_PYTHON` names (README.md here).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from record_traces import CASES
from test_vllm import TIMEOUT_S, vllm_python

from truedraft.formats import resolve
from truedraft.models.load import load_model
from truedraft.probe import Wiring
from truedraft.trace import Trace, TraceDiff, diff_trace

pytestmark = pytest.mark.vllm
SCRIPT = Path(__file__).with_name("record_traces.py")
FIRST_NORM = "layer 0's k_norm"


def traced(name: str, folder: Path) -> TraceDiff:
    """Record a case live and compare it with its pair."""
    path = folder / "t.safetensors"
    environment = {**os.environ, "NO_COLOR": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [vllm_python(), SCRIPT, name, path],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "truedraft trace: 6 rounds" in done.stdout + done.stderr
    pair = f"tiny/{CASES[name].get('draft', name)}"
    return diff_trace(Trace(path), Wiring(pair, None), load_model(resolve(pair)))


def said(found: TraceDiff) -> dict[str, tuple[str, ...]]:
    return {outcome.where: outcome.explained for outcome in found.outcomes if outcome.differs}


def test_v1_as_shipped_norms_with_the_first_layers_k_norm(tmp_path: Path) -> None:
    assert said(traced("dflash-full", tmp_path)) == {"context keys, layer 1": (FIRST_NORM,)}


@pytest.mark.parametrize("name", ["dflash-full-fixed", "eagle3"], ids=["v1-fixed", "v1-eagle3"])
def test_v1_that_obeys_is_left_alone(name: str, tmp_path: Path) -> None:
    found = traced(name, tmp_path)
    assert said(found) == {}
    assert found.equal == found.rounds > 5


def test_v2_dspark_as_shipped(tmp_path: Path) -> None:
    assert said(traced("dspark", tmp_path)) == {"context keys, layer 1": (FIRST_NORM,)}


def test_v2_speculators_causal_flag_and_windows(tmp_path: Path) -> None:
    steps = {where.split(",")[0] for where in said(traced("dflash-speculators", tmp_path))}
    assert steps == {"context keys", "attention"}


def test_a_compiled_drafter_shows_what_is_around_its_layers(tmp_path: Path) -> None:
    """Warming up and compiling must not meet a listener; vLLM 0.32.0 aborts if they do."""
    found = traced("compiled", tmp_path)
    assert said(found) == {"context keys, layer 1": (FIRST_NORM,)}
    assert {"query and key", "attention", "layer output"} <= set(found.absent)
    assert not {"taps", "block tokens", "slots", "head", "drafts"} & set(found.absent)
