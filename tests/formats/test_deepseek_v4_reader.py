"""DSpark inside DeepSeek-V4: what the reader makes of configs and tensors, axis by axis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from checkpoints import DELETE, TARGET, ZLAB, changed, refused_in_one_line, write, write_tensors
from stage_files import SMALL, Shapes, stage_shapes

from truedraft.checks import Subject, run_checks
from truedraft.contract import AXES, Contract
from truedraft.formats import expected, inspect, resolve


def read(
    directory: Path,
    changes: Mapping[str, Any] | None = None,
    tensors: Shapes | None = None,
    overrides: tuple[str, ...] = (),
) -> Contract:
    path = write(directory / "pair", changed(SMALL, changes or {}), tensors)
    found = inspect(path, path, overrides)
    assert found.contract is not None, found.refusal
    return found.contract


# ---------------------------------------------------------------------------------------- axis by axis

STATED: dict[str, tuple[str, Any, Any]] = {
    "stages.streams": ("hc_mult", 3, 3),
    "stages.mix_eps": ("hc_eps", 0.25, 0.25),
    "stages.sinkhorn_iterations": ("hc_sinkhorn_iters", 7, 7),
    "stages.query_rank": ("q_lora_rank", 9, 9),
    "stages.output_groups": ("o_groups", 4, 4),
    "stages.output_rank": ("o_lora_rank", 3, 3),
    "stages.experts": ("n_routed_experts", 9, 9),
    "stages.experts_per_token": ("num_experts_per_tok", 3, 3),
    "stages.shared_experts": ("n_shared_experts", 2, 2),
    "stages.scoring": ("scoring_func", "sigmoid", "sigmoid"),
    "stages.router_bias": ("topk_method", "greedy", False),
    "stages.normalised_weights": ("norm_topk_prob", False, False),
    "stages.routed_scaling": ("routed_scaling_factor", 3, 3.0),
    "stages.swiglu_limit": ("swiglu_limit", 7, 7.0),
}

DEFAULTS: dict[str, Any] = {
    "stages.streams": 4,
    "stages.mix_eps": 1e-6,
    "stages.sinkhorn_iterations": 20,
    "stages.query_rank": 1024,
    "stages.output_groups": 8,
    "stages.output_rank": 1024,
    "stages.experts": 256,
    "stages.experts_per_token": 6,
    "stages.shared_experts": 1,
    "stages.scoring": "sqrtsoftplus",
    "stages.router_bias": True,
    "stages.normalised_weights": True,
    "stages.routed_scaling": 1.5,
}
"""DeepseekV4Config of transformers 5.23."""


@pytest.mark.parametrize("axis", STATED)
def test_key(axis: str, tmp_path: Path) -> None:
    key, stated, value = STATED[axis]
    found = read(tmp_path, {key: stated}).axes[axis]
    assert found.value == value
    assert found.source is not None
    assert (found.source.kind, found.source.where) == ("stated", f"draft/config.json#/{key}")


@pytest.mark.parametrize("axis", DEFAULTS)
def test_default(axis: str, tmp_path: Path) -> None:
    found = read(tmp_path, {STATED[axis][0]: DELETE}).axes[axis]
    assert found.value == DEFAULTS[axis]
    assert found.source is not None
    assert found.source.kind == "family"


def test_an_absent_clamp_is_unknown_and_null_is_none(tmp_path: Path) -> None:
    """transformers would clamp at 10 then, engines not at all: nobody's rule decides."""
    contract = read(tmp_path, {"swiglu_limit": DELETE})
    assert contract.unsettled == ("stages.swiglu_limit",)
    assert read(tmp_path, {"swiglu_limit": None}).axes["stages.swiglu_limit"].state == "value"
    assert read(tmp_path, {"swiglu_limit": None})["stages.swiglu_limit"] is None


def test_experts_of_the_stages_own(tmp_path: Path) -> None:
    own = {"dspark_n_routed_experts": 3, "dspark_num_experts_per_tok": 1}
    contract = read(tmp_path, own)
    assert (contract["stages.experts"], contract["stages.experts_per_token"]) == (3, 1)
    assert contract.conflicts == ()
    assert contract.unread_keys == ()


BAD = {
    "scoring": ({"scoring_func": "tanh"}, "found 'tanh', expected one of sqrtsoftplus"),
    "streams": ({"hc_mult": 0}, "expected a whole number >= 1"),
    "limit": ({"swiglu_limit": -1}, "expected a positive number or none"),
    "experts": ({"n_routed_experts": 10**9}, "found 1000000000 experts, expected 1 to 4096"),
    "type": ({"o_groups": "8"}, "o_groups: found '8', expected a whole number"),
    "stages": ({"n_mtp_layers": 65, "compress_ratios": DELETE}, "found 65 stages, expected 1 to 64"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_one_line(name: str, tmp_path: Path) -> None:
    changes, message = BAD[name]
    path = write(tmp_path / "pair", changed(SMALL, changes))
    refused_in_one_line(lambda: resolve(path), message)


def test_other_dialects_have_none_of_it(tmp_path: Path) -> None:
    """A new axis changes no hash of pairs that lack it."""
    target, draft = write(tmp_path / "target", TARGET), write(tmp_path / "draft", ZLAB)
    contract = resolve(target, draft).contract
    stages = {name for name in AXES if name.startswith("stages.")}
    assert {contract.axes[name].state for name in stages} == {"not_applicable"}
    assert resolve("tiny/dspark").contract.hash == "dd633290c41ebd07"


# ------------------------------------------------------------------------------------------- tensors


def test_every_tensor_of_a_published_stage_is_expected(tmp_path: Path) -> None:
    contract = read(tmp_path, None, stage_shapes())
    assert expected(contract) == stage_shapes()
    assert contract.conflicts == ()
    assert contract.unread_keys == ()
    assert contract.unsettled == ()
    path = tmp_path / "pair"
    assert set(resolve(path).tensors) == set(stage_shapes())


def test_tensors_of_the_target_are_not_the_drafter_s(tmp_path: Path) -> None:
    others: Shapes = {"embed.weight": (64, 32), "layers.0.attn.wkv.weight": (16, 32), "hc_head_fn": (4, 128)}
    others |= {"mtp.0.e_proj.weight": (32, 32), "mtp.1.ffn.experts.5.w1.weight": (12, 32)}
    contract = read(tmp_path, None, stage_shapes() | others)
    assert contract.unread_keys == (
        "draft/model.safetensors#mtp.0.e_proj.weight",
        "draft/model.safetensors#mtp.1.ffn.experts.5.w1.weight",
    )
    assert contract["stages.collapse"] == "head"


CONTRADICTED: dict[str, tuple[dict[str, Any], int | str, int | str]] = {
    "backbone.layers": ({"compress_ratios": [0, 0, 4, 128, 0, 0, 0]}, 2, 3),
    "backbone.hidden_size": ({}, 32, 24),
    "backbone.intermediate_size": ({"moe_intermediate_size": 24, "n_shared_experts": DELETE}, 24, 12),
    "backbone.heads": ({"num_attention_heads": 8}, 8, 4),
    "backbone.head_dim": ({"head_dim": 32}, 32, 16),
    "stages.streams": ({"hc_mult": 3}, 3, 4),
    "stages.query_rank": ({"q_lora_rank": 20}, 20, 10),
    "stages.output_rank": ({"o_lora_rank": 5}, 5, 6),
    "stages.experts": ({"n_routed_experts": 7}, 7, 5),
    "stages.shared_experts": ({"n_shared_experts": 3}, 3, 1),
    "stages.router_bias": ({"topk_method": "greedy"}, False, True),
    "markov.rank": ({"dspark_markov_rank": 9}, 9, 8),
}


@pytest.mark.parametrize("axis", CONTRADICTED)
def test_config_against_tensors(axis: str, tmp_path: Path) -> None:
    """The tensors say first how many stages there are; elsewhere the config is named first."""
    changes, first, second = CONTRADICTED[axis]
    shapes = stage_shapes()
    if axis == "backbone.hidden_size":
        shapes |= {name: (24,) for name in shapes if name.endswith("attn_norm.weight")}
    contract = read(tmp_path, changes, shapes)
    conflict = next(conflict for conflict in contract.conflicts if conflict.axis == axis)
    assert [source.value for source in conflict.sources] == [first, second]
    kinds = [source.source.kind for source in conflict.sources if source.source]
    assert kinds == (["shape", "stated"] if axis == "backbone.layers" else ["stated", "shape"])


def test_tensors_settle_what_the_config_leaves_out(tmp_path: Path) -> None:
    keys = ("hc_mult", "q_lora_rank", "o_lora_rank", "n_routed_experts", "n_shared_experts", "topk_method")
    gone = {key: DELETE for key in (*keys, "num_attention_heads", "moe_intermediate_size", "compress_ratios")}
    contract = read(tmp_path, {**gone, "dspark_markov_rank": DELETE}, stage_shapes())
    assert expected(contract) == stage_shapes()
    assert contract.unsettled == ()
    kinds = {axis: contract.axes[axis].source for axis in ("stages.experts", "backbone.layers")}
    assert {source.kind for source in kinds.values() if source} == {"shape"}


def test_stages_are_not_counted_by_num_nextn_predict_layers(tmp_path: Path) -> None:
    contract = read(tmp_path, {"num_nextn_predict_layers": 1, "compress_ratios": DELETE}, stage_shapes())
    assert contract["stages.layers"] == (4, 5)
    bare = read(tmp_path / "bare", {"num_nextn_predict_layers": 1, "compress_ratios": DELETE})
    assert "backbone.layers" in bare.unsettled


def test_no_shared_expert(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in stage_shapes().items() if "shared" not in name}
    contract = read(tmp_path, {"n_shared_experts": 0}, shapes)
    assert contract.conflicts == ()
    assert expected(contract) == shapes
    (conflict,) = read(tmp_path, None, shapes).conflicts
    assert [source.value for source in conflict.sources] == [1, 0]


@pytest.mark.parametrize("name", ["mtp.0.attn.wkv.weight", "mtp.1.hc_head_base", "mtp.0.ffn.gate.weight"])
def test_missing_tensors_are_named(name: str, tmp_path: Path) -> None:
    shapes = stage_shapes()
    shape = list(shapes.pop(name))
    path = write(tmp_path / "pair", SMALL, shapes)
    refused_in_one_line(lambda: resolve(path), f"no tensor {name}, expected one of shape {shape}")


@pytest.mark.parametrize("stage", [0, 1])
def test_one_router_bias_asks_for_all(stage: int, tmp_path: Path) -> None:
    shapes = stage_shapes()
    del shapes[f"mtp.{stage}.ffn.gate.bias"]
    path = write(tmp_path / "pair", SMALL, shapes)
    message = f"no tensor mtp.{stage}.ffn.gate.bias, expected one of shape [5]"
    refused_in_one_line(lambda: resolve(path), message)


def test_no_router_bias_at_all(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in stage_shapes().items() if "gate.bias" not in name}
    contract = read(tmp_path, {"topk_method": DELETE}, shapes)
    assert contract["stages.router_bias"] is False
    assert contract.conflicts == ()


@pytest.mark.parametrize("ratios", [[0, 0, 4, 128, 0], [0, 0, 4, 128, 0, 0, 0]])
def test_a_count_of_stages_that_the_config_contradicts(ratios: list[int], tmp_path: Path) -> None:
    """A conflict like any other, and no tensor is called missing or unused for it."""
    path = write(tmp_path / "pair", {**SMALL, "compress_ratios": ratios}, stage_shapes())
    found = resolve(path)
    assert [conflict.axis for conflict in found.contract.conflicts] == ["backbone.layers"]
    assert found.contract.unread_keys == ()
    told = {finding.code for finding in run_checks(Subject(inspect(path))).findings}
    assert "TD101" in told
    assert not told & {"TD201", "TD202", "TD209"}
    assert found.contract.unsettled == ("backbone.layers",)
    stated = len(ratios) - 4
    remedy = f"--set backbone.layers=2 or --set backbone.layers={stated}"
    assert found.contract.conflicts[0].remedy == remedy
    settled = resolve(path, None, ("backbone.layers=2",))
    assert settled.contract.unsettled == ()
    assert settled.tensors.keys() == stage_shapes().keys()


def test_rounds_of_normalisation_are_bounded(tmp_path: Path) -> None:
    target = write(tmp_path / "target", {key: v for key, v in SMALL.items() if not key.startswith("dspark_")})
    draft = write(tmp_path / "draft", {**SMALL, "hc_sinkhorn_iters": 10**6})
    message = "draft/config.json#/hc_sinkhorn_iters: found 1000000 rounds, expected 1 to 1000"
    refused_in_one_line(lambda: resolve(target, draft), message)


def test_quantised_tensors_need_their_scales(tmp_path: Path) -> None:
    """Beside its scales a matrix may be FP8, or hold two FP4 numbers in each byte; the shapes still count."""
    from tensor_pairs import Stored, filled, raw
    from tensor_pairs import write_tensors as store

    def stored(change: Mapping[str, Stored]) -> Path:
        tensors = {name: filled(*shape) for name, shape in stage_shapes().items()}
        path = write(tmp_path / "pair", SMALL)
        store(path / "model.safetensors", {**tensors, **change})
        return path

    name = "mtp.0.ffn.experts.0.w1"
    scale = {f"{name}.scale": raw("F8_E8M0", 12, 1)}
    for weight in (raw("F8_E4M3", 12, 32), raw("I8", 12, 16), raw("U8", 12, 16), raw("F4", 12, 32)):
        found = resolve(stored({f"{name}.weight": weight, **scale}))
        assert found.contract.unread_keys == ()
    refused_in_one_line(
        lambda: resolve(stored({f"{name}.weight": raw("F8_E4M3", 12, 32)})), "found dtype F8_E4M3"
    )
    refused_in_one_line(
        lambda: resolve(stored({f"{name}.weight": raw("I8", 12, 15), **scale})), "found shape [12, 15]"
    )


# ---------------------------------------------------------------------------- rope, nested keys, V4.1


def test_rope_as_transformers_saves_it(tmp_path: Path) -> None:
    """Nested by `main` and `compress`; the number of rotated dimensions as a share of the head."""
    saved = {
        "rope_theta": DELETE,
        "compress_rope_theta": DELETE,
        "rope_scaling": DELETE,
        "qk_rope_head_dim": DELETE,
        "partial_rotary_factor": 0.5,
        "rope_parameters": {
            "main": {"rope_type": "default", "rope_theta": 5000.0},
            "compress": {"rope_theta": 70000.0, **SMALL["rope_scaling"], "rope_type": "yarn"},
        },
    }
    contract = read(tmp_path, saved)
    assert contract["rope.theta"] == (5000.0, 5000.0)
    assert contract["rope.scaling"] == (None, None)
    assert contract["rope.rotary_dims"] == (8, 8)
    mixed = read(tmp_path, {**saved, "compress_ratios": [0, 0, 4, 128, 4, 0]})
    assert mixed["rope.theta"] == (70000.0, 5000.0)
    assert [scaling and scaling["kind"] for scaling in mixed["rope.scaling"]] == ["yarn", None]


def test_two_bases_are_a_conflict(tmp_path: Path) -> None:
    contract = read(tmp_path, {"rope_parameters": {"main": {"rope_theta": 5000.0}}})
    assert [conflict.axis for conflict in contract.conflicts] == ["rope.theta"]


def test_stages_keep_their_rope_where_the_list_is_short(tmp_path: Path) -> None:
    """As the stages are trained: a list that ends with the target's layers takes nothing from them."""
    contract = read(tmp_path, {"compress_ratios": [0, 0, 4, 128]}, stage_shapes())
    assert contract["rope.scaling"] == (None, None)
    assert contract["rope.theta"] == (10000.0, 10000.0)


def test_a_hybrid_reads_the_drafter_s_own_entries(tmp_path: Path) -> None:
    base = {key: value for key, value in SMALL.items() if not key.startswith("dspark_")}
    target = write(tmp_path / "target", {**base, "compress_ratios": [0, 0, 4, 128, 0], "sliding_window": 7})
    draft = write(tmp_path / "draft", {**SMALL, "num_hidden_layers": 4}, stage_shapes())
    contract = resolve(target, draft).contract
    assert contract["attention.window"] == (128, 128)
    assert contract["rope.scaling"] == (None, None)
    assert contract["stages.layers"] == (4, 5)


def test_v41_has_other_arithmetic(tmp_path: Path) -> None:
    text = {**SMALL, "model_type": "deepseek_v41"}
    shapes = {
        name.replace("markov_w1", "embed").replace("markov_w2", "head"): shape
        for name, shape in stage_shapes().items()
        if "hc_head" not in name
    }
    path = write(tmp_path / "pair", {"model_type": "deepseek_v41", "text_config": text}, shapes)
    contract = resolve(path).contract
    assert contract["stages.collapse"] == "last_mix"
    assert contract["stages.query_head_norm"] is False
    assert contract["taps.layers"] == (0, 1, 2)  # the entry of layer n
    assert contract.conflicts == ()
    assert contract.unread_keys == ()
    assert "mtp.1.markov_head.markov_w1.weight" in resolve(path).tensors
    write_tensors(path / "model.safetensors", shapes | {"mtp.1.hc_head_fn": (4, 128)})
    (conflict,) = inspect(path).contract.conflicts  # type: ignore[union-attr]
    assert conflict.axis == "stages.collapse"
