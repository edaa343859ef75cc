"""Single facts of engines that an audit found wrong or missing, each against its release's source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from case import found, pair, told
from cases_contract import WINDOWED, speculators
from cases_engines import CONVERTED, EAGLE3, read
from checkpoints import CONFIGS, DEEPSPEC, DELETE, ZLAB, changed, write
from targets import TARGETS

from truedraft.checks import Subject
from truedraft.formats import inspect

FULL = {"layer_types": ["full_attention"] * 3, "use_sliding_window": False, "sliding_window": None}
NEST = {"dflash_config": {"mask_token_id": 1, "target_layer_ids": [1, 3, 5], "block_size": 8}}


def reading(subject: Subject, engine: str) -> Any:
    (found_reading,) = read(subject, engine).readings
    return found_reading


def refused(subject: Subject, engine: str) -> str:
    return told(found(read(subject, engine), "TD420"))


def test_0_28_takes_the_targets_rope_style_for_dflash_and_not_for_dspark(tmp_path: Path) -> None:
    for model_type in ("glm_moe_dsa", "kimi_k25", "deepseek_v3"):
        target = {"model_type": model_type}
        dflash = pair(tmp_path / f"{model_type}-dflash", target=target)
        dspark = pair(tmp_path / f"{model_type}-dspark", base=DEEPSPEC, target=target)
        assert set(reading(dflash, "vllm:0.28.0:v2").contract["rope.layout"]) == {"interleaved"}
        assert set(reading(dspark, "vllm:0.28.0:v2").contract["rope.layout"]) == {"half"}


@pytest.mark.parametrize("engine", ["vllm:0.24.0:v1", "vllm:0.32.0:v1"])
def test_qwen3_eagle3_counts_the_ids_at_the_top_level(tmp_path: Path, engine: str) -> None:
    four = {"eagle_aux_hidden_state_layer_ids": [1, 2, 4, 6]}
    qwen3 = {**four, "transformer_layer_config/model_type": "qwen3"}
    assert refused(pair(tmp_path / "qwen3", qwen3, base=CONVERTED), engine) == ""
    llama = pair(tmp_path / "llama", four, base=CONVERTED)
    assert "built for 3 taps and gets 4" in refused(llama, engine)
    assert '"num_aux_hidden_states": 4 in transformer_layer_config' in refused(llama, engine)
    mended = pair(
        tmp_path / "mended", {**four, "transformer_layer_config/num_aux_hidden_states": 4}, base=CONVERTED
    )
    assert refused(mended, engine) == ""
    assert found(mended, "TD104") == []
    wrong_place = pair(tmp_path / "wrong", {**four, "num_aux_hidden_states": 4}, base=CONVERTED)
    assert "built for 3" in refused(wrong_place, engine)


def test_no_flag_is_advised_where_layers_are_mixed(tmp_path: Path) -> None:
    (finding,) = found(read(pair(tmp_path / "mixed"), "llama.cpp"), "TD407")
    assert finding.fix == "no setting gives the trained masks"
    kinds = {"layer_types": ["sliding_attention"] * 3}
    (finding,) = found(read(pair(tmp_path / "uniform", kinds), "llama.cpp"), "TD407")
    assert finding.fix == '"is_causal": true'
    after = pair(tmp_path / "after", {**kinds, "is_causal": True})
    assert found(read(after, "llama.cpp"), "TD407") == []
    (finding,) = found(read(pair(tmp_path / "old", {"is_causal": False}), "vllm:0.26.0:v2"), "TD407")
    assert finding.fix == '"dflash_config.causal": false'
    after = pair(tmp_path / "new", {"is_causal": False, "dflash_config/causal": False})
    assert found(read(after, "vllm:0.26.0:v2"), "TD407") == []


def test_llama_cpp_reads_the_windows_of_assistants(tmp_path: Path) -> None:
    config = (CONFIGS / "zlab-dflash-fixture__Muse-Glimmer-30B-assistant.json").read_text()
    target = write(tmp_path / "target", TARGETS["Muse-Glimmer-30B"])
    subject = Subject(inspect(target, write(tmp_path / "draft", config)))
    assert found(read(subject, "llama.cpp"), "TD405") == []
    assert "not registered" in refused(subject, "sglang:0.5.17")
    assert found(read(subject, "sglang:0.5.23"), "TD407") == []


@pytest.mark.parametrize(
    ("model_type", "ids", "engine", "taps"),
    [
        ("qwen3", [2, 4, 6], "sglang:0.5.23", (2, 4, 6)),
        ("deepseek_v3", [2, 4, 6], "sglang:0.5.23", (1, 3, 5)),
        ("deepseek_v3", [1, 4, 6], "sglang:0.5.23", (1, 4, 6)),
        ("kimi_k25", [2, 4, 6], "sglang:0.5.23", (1, 3, 5)),
        ("glm_moe_dsa", [2, 4, 6], "sglang:0.5.23", (1, 3, 5)),
        ("gpt_oss", [2, 4, 8], "sglang:0.5.23", (1, 3, 7)),
        ("gpt_oss", [2, 4, 8], "sglang:0.5.16", (2, 4)),
    ],
)
def test_sglang_reads_eagle_ids_by_target(
    tmp_path: Path, model_type: str, ids: list[int], engine: str, taps: tuple[int, ...]
) -> None:
    config = changed(EAGLE3, {"eagle_aux_hidden_state_layer_ids": DELETE})
    config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": ids}
    entries = {"eagle_aux_hidden_state_layer_ids": ids}
    subject = pair(tmp_path, entries, {"model_type": model_type}, base=config)
    assert reading(subject, engine).contract["taps.layers"] == taps


def test_sglang_rotates_chains_by_the_top_level_share(tmp_path: Path) -> None:
    subject = pair(tmp_path, {"partial_rotary_factor": 0.5}, base=EAGLE3)
    for engine in ("sglang:0.5.16", "sglang:0.5.23"):
        assert reading(subject, engine).contract["rope.rotary_dims"] == (8,)
    assert reading(pair(tmp_path / "draft", {"partial_rotary_factor": 0.5}), "sglang:0.5.19").contract[
        "rope.rotary_dims"
    ] == (16, 16, 16)


@pytest.mark.parametrize(
    ("model_type", "captured"), [("deepseek_v3", False), ("nemotron_h", True), ("lfm2", True)]
)
def test_sglang_and_the_last_layer(tmp_path: Path, model_type: str, captured: bool) -> None:
    subject = pair(tmp_path, {"dflash_config/target_layer_ids": [1, 3, 7]}, {"model_type": model_type})
    assert ("never captured" in refused(subject, "sglang:0.5.23")) is not captured


def test_refusals_that_were_missing(tmp_path: Path) -> None:
    slot = pair(tmp_path / "slot", {**FULL, "dflash_config/sample_from_anchor": True})
    assert "sample_from_anchor=True is not supported for DFlash" in refused(slot, "vllm:0.32.0:v2")
    assert refused(slot, "vllm:0.32.0:v1") == ""
    taps = pair(tmp_path / "taps", {"target_layer_ids": [1, 2, 3, 5]}, base=DEEPSPEC)
    assert "fc is built for as many taps as there are draft layers, 3, and gets 4" in refused(
        taps, "vllm:0.26.0:v2"
    )
    assert refused(taps, "vllm:0.28.0:v2") == ""
    nested = {k: DEEPSPEC[k] for k in ("markov_rank", "markov_head_type", "enable_confidence_head")}
    nested |= {"projector_type": "dspark", "target_layer_ids": [1, 3, 5], "mask_token_id": 1}
    config = {k: v for k, v in ZLAB.items() if k != "dflash_config"} | {"dflash_config": nested, **FULL}
    forge = pair(tmp_path / "forge", {"architectures": ["DSparkDraftModel"]}, base=config)
    assert "AttributeError" in refused(forge, "vllm:0.32.0:v2")
    assert "taken for the drafter inside DeepSeek-V4" in refused(forge, "vllm:0.28.0:v2")
    assert "taken for" not in refused(forge, "vllm:0.30.0:v2")
    window = pair(tmp_path / "window", {"use_sliding_window": DELETE})
    assert "Qwen3Config drops it" in refused(window, "sglang:0.5.23")
    kimi = pair(tmp_path / "kimi", FULL, {"model_type": "kimi_k25"})
    assert "layer input tensor not found" in refused(kimi, "llama.cpp")


def test_muse_targets_take_foreign_ids_as_entries_in_sglang(tmp_path: Path) -> None:
    subject = pair(tmp_path, target={"model_type": "muse_glimmer_text"})
    assert reading(subject, "sglang:0.5.23").contract["taps.layers"] == (0, 2, 4)


def test_the_fork_is_judged_by_its_reports_only(tmp_path: Path) -> None:
    for runner in ("v1", "v2"):
        (one,) = read(speculators(tmp_path, WINDOWED), f"vllm-jasl:b5c0d43b:{runner}").readings
        assert set(one.facts) == {"taps.layers"}
        assert one.refusals == one.hazards == ()


def test_slots_are_told_beside_a_doubtful_refusal(tmp_path: Path) -> None:
    bonus = {"sample_from_anchor": False, "speculators_config/proposal_methods": [{"speculative_tokens": 7}]}
    subject = read(speculators(tmp_path, bonus), "sglang:0.5.18")
    assert [finding.severity for finding in found(subject, "TD420")] == ["warning"]
    assert "predicts_next" in told(found(subject, "TD403"))
    assert found(subject, "TD401") == []


def test_entries_beside_outputs_are_the_fix_and_no_unread_key(tmp_path: Path) -> None:
    entries = {"eagle_aux_hidden_state_layer_ids": [2, 4, 6]}
    mended = read(pair(tmp_path / "mended", {**FULL, **entries}), "vllm:0.20.1:v1")
    assert [f.code for code in ("TD401", "TD104", "TD101") for f in found(mended, code)] == []
    doubled = pair(tmp_path / "doubled", {"eagle_aux_hidden_state_layer_ids": [1, 3, 5]})
    assert "taps.layers" in told(found(doubled, "TD101"))


def test_a_null_key_states_nothing(tmp_path: Path) -> None:
    assert found(pair(tmp_path, {"conv_kernel_size": None}), "TD104") == []
    assert "conv_kernel_size" in told(found(pair(tmp_path / "set", {"conv_kernel_size": 3}), "TD104"))


def test_embedding_scale_is_compared_as_modules_hold_it(tmp_path: Path) -> None:
    gemma = {"model_type": "gemma4_text"}
    healthy = pair(tmp_path / "bf16", {"dflash_config/input_embedding_scale": 7.98}, gemma)
    assert found(read(healthy, "sglang:0.5.23"), "TD409") == []
    broken = pair(tmp_path / "none", {"dflash_config/input_embedding_scale": 1.0}, gemma)
    assert "8" in told(found(read(broken, "sglang:0.5.23"), "TD409"))


def test_runners_that_disagree_are_told_with_the_wrong_value(tmp_path: Path) -> None:
    from cases_contract import COVERED, hybrid

    (finding,) = found(read(hybrid(tmp_path, COVERED), "vllm-jasl:b5c0d43b"), "TD421")
    assert (finding.found, finding.expected) == ((39, 40, 41), (40, 41, 42))
