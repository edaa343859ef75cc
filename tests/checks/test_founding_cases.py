"""The founding reports, three arms each: the fault exactly, the fix exactly, and nothing else moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from case import found, pair, told
from cases_contract import COVERED, SPECULATORS, V4, hybrid, speculators
from cases_engines import FILL_IN, SGLANG, log, packed, read
from checkpoints import CONFIGS, ZLAB, changed, write
from targets import TARGETS

from truedraft.checks import Subject
from truedraft.contract import AXES, Contract, diff
from truedraft.formats import inspect
from truedraft.formats.engines import find_engines, read_engine, without
from truedraft.formats.engines.vllm.deepseek_v4 import compress_ratio, mended_compress_ratio

FORK_V1, FORK_V2 = "vllm-jasl:b5c0d43b:v1", "vllm-jasl:b5c0d43b:v2"
YARN = {
    "kind": "yarn",
    "factor": 16,
    "original_max_position_embeddings": 65536,
    "beta_fast": 32,
    "beta_slow": 1,
}


def reading(subject: Subject, engine: str, asked: int | None = None) -> Contract:
    (release,) = find_engines(engine)
    return read_engine(release, subject.pair, asked).contract


def moved(subject: Subject, engine: str) -> set[str]:
    """Axes on which a release differs from the pair's contract."""
    assert subject.contract is not None
    return {entry.axis for entry in diff(subject.contract, reading(subject, engine))}


# Taps (40, 41, 42): the V1 runner of the fork hands dspark_target_layer_ids on as they are.


def test_taps_of_the_v1_runner_are_one_layer_early(tmp_path: Path) -> None:
    subject = hybrid(tmp_path, COVERED)
    assert subject.contract is not None
    assert subject.contract["taps.layers"] == (40, 41, 42)
    assert reading(subject, FORK_V1)["taps.layers"] == (39, 40, 41)
    assert reading(subject, FORK_V2)["taps.layers"] == (40, 41, 42)
    assert moved(subject, FORK_V1) == {"taps.layers"}
    assert moved(subject, FORK_V2) == set()
    says = told(found(read(subject, FORK_V1), "TD401"))
    assert "captures the outputs of 39/40/41, the contract says 40/41/42" in says


@pytest.mark.parametrize("layer", range(-1, 43))
def test_every_layer_id_is_read_one_early_by_v1_and_right_by_v2(tmp_path: Path, layer: int) -> None:
    config = changed(V4, {"dspark_target_layer_ids": [layer]})
    subject = Subject(inspect(write(tmp_path, config)))
    early = () if layer == -1 else (layer - 1,)  # an entry of -1 does not exist and is ignored
    assert reading(subject, FORK_V1).get("taps.layers") == early
    assert reading(subject, FORK_V2)["taps.layers"] == (layer,)
    assert moved(subject, FORK_V2) == set()


def test_the_fork_reads_taps_of_drafters_without_dspark_keys_right(tmp_path: Path) -> None:
    subject = pair(tmp_path)
    for engine in (FORK_V1, FORK_V2):
        assert reading(subject, engine)["taps.layers"] == (1, 3, 5)


# 43 layers, 44 compress_ratios in the target, stages 43/44/45.


def test_stages_beyond_the_targets_ratios_get_yarn(tmp_path: Path) -> None:
    subject = hybrid(tmp_path)
    assert subject.contract is not None
    assert subject.contract["stages.layers"] == (43, 44, 45)
    assert subject.contract["rope.scaling"] == (None, None, None)
    for engine in (FORK_V1, FORK_V2):
        scaling = reading(subject, engine)["rope.scaling"]
        assert [None if entry is None else dict(entry) for entry in scaling] == [None, YARN, YARN]
    assert "rope.scaling" not in moved(hybrid(tmp_path / "mended", COVERED), FORK_V1)
    for release in ("vllm:0.30.0:v2", "vllm:0.32.0:v2"):
        assert reading(subject, release)["rope.scaling"] == (None, None, None)
    for release in ("vllm:0.26.0:v2", "vllm:0.28.0:v2"):
        assert [dict(entry) for entry in reading(subject, release)["rope.scaling"]] == [YARN] * 3


def test_the_fix_changes_the_stages_beyond_the_list_and_no_layer_of_the_target() -> None:
    target, draft = [*V4["compress_ratios"][:43], 0], V4["compress_ratios"]
    assert len(target) == 44
    assert len(draft) == 46
    for layer in range(43):
        assert compress_ratio(target, 43, layer) == mended_compress_ratio(target, 43, layer)
        assert compress_ratio(target, 43, layer) == (max(1, target[layer]), False)
    assert [compress_ratio(target, 43, i) for i in (43, 44, 45)] == [(1, True), (1, False), (1, False)]
    assert [mended_compress_ratio(target, 43, i) for i in (43, 44, 45)] == [(1, True)] * 3
    assert [compress_ratio(draft, 43, i) for i in (43, 44, 45)] == [(1, True)] * 3


def test_rotary_frequencies_of_the_stages_as_the_fork_builds_them(tmp_path: Path) -> None:
    import torch

    from truedraft.models.rope import inverse_frequencies

    subject = hybrid(tmp_path)
    assert subject.contract is not None
    plain = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    # YaRN (arXiv 2309.00071, appendix A): dimensions that turn fewer than beta_slow times over the original
    # length are divided by the factor, those that turn more than beta_fast times stay.
    turns = 65536 * plain / (2 * torch.pi)
    low, high = (
        64 * torch.log(torch.tensor(65536 / (n * 2 * torch.pi))) / (2 * torch.log(torch.tensor(1e4)))
        for n in (32, 1)
    )
    low, high = torch.floor(low), torch.ceil(high)
    ramp = ((torch.arange(32) - low) / (high - low)).clamp(0, 1).double()
    scaled = plain / 16 * ramp + plain * (1 - ramp)
    assert (turns[0] > 32, turns[-1] < 32) == (True, True)

    def tables(contract: Contract) -> list[Any]:
        return [
            inverse_frequencies(theta, dims, scaling)
            for theta, dims, scaling in zip(
                contract["rope.theta"], contract["rope.rotary_dims"], contract["rope.scaling"], strict=True
            )
        ]

    for table in tables(subject.contract):
        torch.testing.assert_close(table.double(), plain, rtol=1e-6, atol=0)
    first, second, third = tables(reading(subject, FORK_V1))
    torch.testing.assert_close(first.double(), plain, rtol=1e-6, atol=0)
    for table in (second, third):
        torch.testing.assert_close(table.double(), scaled, rtol=1e-5, atol=0)
        assert not torch.allclose(table.double(), plain, rtol=1e-3)


# Block size 0 and the KV zeroer.


def test_block_size_is_read_from_the_targets_config(tmp_path: Path) -> None:
    subject = hybrid(tmp_path / "fault")
    assert reading(subject, FORK_V1)["block.width"] == 0
    assert reading(subject, FORK_V1)["block.proposals"] == 0
    mended = hybrid(tmp_path / "fix", {"dspark_block_size": 5})
    assert reading(mended, FORK_V1)["block.width"] == 5
    assert moved(subject, FORK_V1) - moved(mended, FORK_V1) == {"block.width", "block.proposals"}
    assert reading(subject, "vllm:0.32.0:v2")["block.width"] == 5


@pytest.mark.parametrize("block", [0, 1, 57, 99])
def test_kv_zeroer_clears_the_rows_of_the_freed_block_and_nothing_else(block: int) -> None:
    fault, fix = packed(149760), packed(37376)
    freed = fault.freed(block)
    assert [end - begin for begin, end in freed] == [64 * 584] * 4
    assert fix.zeroed(block) == freed
    wrong = without(fault.zeroed(block), freed)
    # 64 bytes of padding behind each layer's rows, and 112320 bytes of the next block's first three layers.
    assert sum(end - begin for begin, end in wrong) == 4 * 64 + 112320
    beyond = without(fault.zeroed(block), ((0, fault.allocation),))
    assert sum(end - begin for begin, end in beyond) == (112320 if block == 99 else 0)


def test_kv_zeroing_is_told_with_the_right_span(tmp_path: Path) -> None:
    subject = pair(tmp_path)
    findings = found(Subject(subject.pair, kv_layout=packed(149760)), "TD431")
    assert len(findings) == 3
    assert {f.expected for f in findings} == {"span 37376, stride 149760"}
    assert "112320 bytes beyond the allocation are cleared" in told(findings)
    short = found(Subject(subject.pair, kv_layout=packed(37375)), "TD431")
    assert "4 bytes stay" in told(short)
    assert found(Subject(subject.pair, kv_layout=packed(37376)), "TD431") == []


# DFlash on Qwen3.6-27B with vLLM 0.20.1: ids, windows, prefix cache.


def qwen36(directory: Path) -> Subject:
    kinds = (["linear_attention"] * 3 + ["full_attention"]) * 16
    target = write(directory / "target", changed(TARGETS["Qwen3.5-27B"], {"layer_types": kinds}))
    config = (CONFIGS / "sgl-project-SpecForge__qwen3.6-27b-dflash.training-config.json").read_text()
    return Subject(inspect(target, write(directory / "draft", config)))


def test_dflash_ids_windows_and_block_drop_of_vllm_0_20(tmp_path: Path) -> None:
    subject = qwen36(tmp_path)
    assert subject.contract is not None
    assert subject.contract["taps.layers"] == (1, 16, 31, 46, 61)
    assert subject.contract["attention.window"] == (2048, 2048, 2048, 2048, None)
    old = reading(subject, "vllm:0.20.1:v1")
    assert old["taps.layers"] == (0, 15, 30, 45, 60)
    assert old["attention.window"] == (None,) * 5
    assert moved(subject, "vllm:0.20.1:v1") == {"taps.layers", "attention.window", "attention.causal"}
    assert moved(subject, "vllm:0.22.1:v1") == {"attention.window", "attention.causal"}
    assert moved(subject, "vllm:0.32.0:v2") == set()
    drop = found(read(subject, "vllm:0.20.1:v1"), "TD422")
    assert [finding.severity for finding in drop] == ["warning"]
    assert "though dflash never writes it" in told(drop)
    assert [f.severity for f in found(read(pair(tmp_path / "dense"), "vllm:0.20.1:v1"), "TD422")] == ["note"]


# Slots: speculators' bonus anchor against DeepSpec's anchor-first, both ways; gamma from the wrong key.


def test_bonus_anchor_slots_read_as_anchor_first(tmp_path: Path) -> None:
    subject = speculators(tmp_path, SGLANG)
    assert subject.contract is not None
    assert [subject.contract[f"block.{n}"] for n in ("first_slot", "width", "proposals")] == ["unused", 8, 7]
    before = reading(subject, "sglang:0.5.18", asked=7)
    assert [before[f"block.{n}"] for n in ("first_slot", "width", "proposals")] == ["predicts_next", 7, 7]
    after = reading(subject, "sglang:0.5.19", asked=7)
    assert [after[f"block.{n}"] for n in ("first_slot", "width", "proposals")] == ["unused", 8, 7]


def test_anchor_first_slots_read_as_bonus_anchor(tmp_path: Path) -> None:
    subject = speculators(tmp_path)
    hard_coded = reading(subject, "vllm:0.26.0:v2")
    assert [hard_coded[f"block.{n}"] for n in ("first_slot", "width", "proposals")] == ["unused", 9, 8]
    honoured = reading(subject, "vllm:0.28.0:v2")
    assert [honoured[f"block.{n}"] for n in ("first_slot", "width", "proposals")] == ["predicts_next", 8, 8]
    assert moved(subject, "vllm:0.26.0:v2") - moved(subject, "vllm:0.28.0:v2") == {
        "block.first_slot",
        "block.width",
        "confidence.input",
    }


def test_absent_key_means_opposite_things(tmp_path: Path) -> None:
    keyless = {k: v for k, v in SPECULATORS.items() if k != "sample_from_anchor"}
    subject = pair(tmp_path, base=keyless)
    assert reading(subject, "vllm:0.32.0:v2")["block.first_slot"] == "unused"
    assert reading(subject, "speculators:0.9")["block.first_slot"] == "predicts_next"
    assert reading(subject, "llama.cpp")["block.first_slot"] == "unused"


def test_gamma_from_the_wrong_key(tmp_path: Path) -> None:
    subject = speculators(tmp_path, FILL_IN)
    default = reading(subject, "vllm:0.32.0:v2")
    assert (default["block.width"], default["block.proposals"]) == (9, 8)
    asked = reading(subject, "vllm:0.32.0:v2", asked=7)
    assert (asked["block.width"], asked["block.proposals"]) == (8, 7)
    modules = changed(V4, {"num_nextn_predict_layers": 3})
    stages = Subject(inspect(write(tmp_path / "modules", modules)))
    refused = told(found(read(stages, "vllm:0.30.0:v2", asked=5), "TD420"))
    assert "num_speculative_tokens:5 must be divisible by n_predict=3" in refused
    assert found(read(stages, "vllm:0.32.0:v2", asked=5), "TD420") == []
    assert reading(stages, "vllm:0.30.0:v2")["block.proposals"] == 3
    whole = Subject(inspect(write(tmp_path / "whole", V4)))
    assert reading(whole, "vllm:0.28.0:v2")["block.proposals"] == 1
    assert "found 1" in told(found(read(whole, "vllm:0.26.0:v2"), "TD420"))
    assert found(read(whole, "vllm:0.26.0:v2", asked=5), "TD420") == []


# The boot log.


def test_boot_log_is_explained_for_the_version_and_the_runner(tmp_path: Path) -> None:
    line = (
        "(EngineCore pid=1) INFO [gpu_model_runner.py:5416] Using auxiliary layers from speculative config: "
    )
    subject = read(hybrid(tmp_path, COVERED), FORK_V1)
    (wrong,) = found(log(subject, line + "(40, 41, 42)"), "TD430")
    assert f"{FORK_V1} captures the outputs of 39/40/41, the contract says 40/41/42" in wrong.message
    assert wrong.severity == "error"
    assert wrong.fix.startswith("the line must read (41, 42, 43): ")
    (right,) = found(log(subject, line + "(41, 42, 43)"), "TD430")
    assert right.severity == "note"
    assert "the same" in right.message
    assert "by its reading vllm-jasl:b5c0d43b:v1 would capture 39/40/41" in right.message
    (second,) = found(log(subject, "Using Eagle3 auxiliary layers from config: (41, 42, 43)"), "TD430")
    assert second.severity == "note"
    assert "vLLM's V2 runner captures" in second.message


def test_every_axis_has_exactly_one_engine_rule() -> None:
    from importlib import import_module
    from pkgutil import iter_modules

    from truedraft.checks import rules

    owned: list[str] = []
    for entry in iter_modules(rules.__path__):
        if entry.name.startswith("td4"):
            owned += getattr(import_module(f"{rules.__name__}.{entry.name}"), "AXES", ())
    assert sorted(owned) == sorted(AXES)


def test_zlab_base_is_read_as_trained_by_a_recent_release(tmp_path: Path) -> None:
    assert moved(pair(tmp_path, base=ZLAB), "vllm:0.32.0:v2") == set()
