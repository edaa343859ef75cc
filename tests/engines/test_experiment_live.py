"""`truedraft experiment` on the real vLLM (README.md here): what a fault costs, its fix gives back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_vllm import TINY, vllm_python

from truedraft.cli import main

pytestmark = pytest.mark.vllm


@pytest.fixture
def forgetful(tmp_path: Path) -> Path:
    """`dflash-full` whose tap ids V1 forgets: it reads a non-empty `eagle_config`, which has none."""
    copy = tmp_path / "draft"
    shutil.copytree(TINY / "dflash-full", copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"eagle_config": {"use_aux_hidden_state": True}}))
    return copy


def test_the_fix_of_a_fault_is_a_gain_beyond_its_interval(
    forgetful: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["experiment", "tiny", str(forgetful), "--python", str(vllm_python()), "--runner", "v1"]
    argv += [
        "--arms",
        "native,fix:taps",
        "--boots",
        "1",
        "--max-new-tokens",
        "48",
        "--out",
        str(tmp_path / "out"),
    ]
    code = main([*argv, "--json", "--quiet"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [arm["outputs"] for arm in found["arms"]] == [{"equal": 24, "of": 24}] * 2
    (entry,) = found["differences"]
    assert entry["interval_over"] == "prompts"
    assert entry["tau"]["interval"][0] > 0
    assert any("taps.layers: 1,3,4 -> 1,4,6" in line for line in found["arms"][1]["plugin"])


def test_a_repeated_prompt_takes_its_blocks_from_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["experiment", "tiny/eagle3", "--python", str(vllm_python()), "--runner", "v1", "--boots", "1"]
    argv += [
        "--arms",
        "native,native/no-block-drop",
        "--max-new-tokens",
        "16",
        "--out",
        str(tmp_path / "out"),
    ]
    argv += ["--prefix-caching", "--repeat", "2", "--engine-args", '{"block_size": 32}']
    code = main([*argv, "--json", "--quiet"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    found = json.loads(out)
    cached = {(arm["arm"], arm["passes"]): arm["cached_tokens"] for arm in found["arms"]}
    assert found["block_size"] == 32
    assert cached["native", "cold"] == cached["native/no-block-drop", "cold"] == 0
    # One block of every prompt is what the drop costs.
    assert cached["native/no-block-drop", "repeated"] - cached["native", "repeated"] == pytest.approx(32)
