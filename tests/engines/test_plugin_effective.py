"""Fake live engines of the bundled pairs: a healthy one gives no finding, each fault its own."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType, SimpleNamespace

import pytest
import torch
from fake_vllm import VERSION, Engine, Rotary, Weight, first_layers_norm

from truedraft import diff
from truedraft.engines.vllm.effective import read_effective
from truedraft.engines.vllm.judge import judge
from truedraft.engines.vllm.live import read_engine
from truedraft.engines.vllm.tensors import vllm_name
from truedraft.formats import inspect

HEALTHY = (
    ("tiny/dflash-full", "v1"),
    ("tiny/dflash-full", "v2"),
    ("tiny/dflash", "v2"),
    ("tiny/dspark", "v2"),
    ("tiny/dspark-bonus", "v2"),
    ("tiny/dspark-anchor", "v2"),
    ("tiny/eagle3", "v1"),
    ("tiny/eagle3", "v2"),
)


def findings(engine: Engine) -> list[tuple[str, str | None]]:
    live = read_engine(engine.config, engine.runner, VERSION)
    assert live is not None
    pair = inspect(engine.target_directory, engine.draft_directory)
    return [(finding.code, finding.axis) for finding in judge(pair, live).findings]


@pytest.mark.parametrize(("name", "runner"), HEALTHY)
def test_a_healthy_engine_gives_no_finding(name, runner):
    assert findings(Engine(name, runner)) == []


@pytest.mark.parametrize(("name", "runner"), HEALTHY)
def test_the_live_contract_agrees_where_it_was_seen(name, runner):
    engine = Engine(name, runner)
    live = read_engine(engine.config, engine.runner, VERSION)
    effective = read_effective(engine.contract, live, None)
    assert diff(engine.contract, effective.comparable) == ()
    different = {entry.axis for entry in diff(engine.contract, effective.contract)}
    assert different == {
        axis
        for axis, entry in engine.contract.axes.items()
        if entry.state == "value" and axis not in effective.facts
    }
    assert {"taps.layers", "rope.theta", "attention.window", "head.source"} <= set(effective.facts)


def _taps(engine: Engine) -> None:
    engine.target.model.aux_hidden_state_layers = (1, 4, 6)


def _window(engine: Engine) -> None:
    engine.layers[0].attn.sliding_window = 16


def _causal(engine: Engine) -> None:
    engine.drafter.dflash_causal = True


def _mask(engine: Engine) -> None:
    engine.drafter.parallel_drafting_token_id = 0


def _theta(engine: Engine) -> None:
    other = Rotary(32, 1e6)
    for layer in engine.layers:
        layer.rotary_emb = other
    engine.model.model._rope_cos_sin_cache = other.cos_sin_cache


def _attribute_lies(engine: Engine) -> None:
    """The attribute says 10000, the table turns with another base."""
    for layer in engine.layers:
        layer.rotary_emb.cos_sin_cache = Rotary(32, 5e5).cos_sin_cache


def _context_table(engine: Engine) -> None:
    engine.model.model._rope_cos_sin_cache = Rotary(32, 1e6).cos_sin_cache


def _layout(engine: Engine) -> None:
    engine.layers[0].rotary_emb.is_neox_style = False


def _head(engine: Engine) -> None:
    engine.own("lm_head")


def _embedding(engine: Engine) -> None:
    engine.own("embed_tokens")


def _scale(engine: Engine) -> None:
    engine.model.logits_processor = SimpleNamespace(scale=2.0, soft_cap=None)


def _map(engine: Engine) -> None:
    engine.model.draft_id_to_target_id = torch.nn.Parameter(torch.zeros(3), requires_grad=False)


def _k_norm(engine: Engine) -> None:
    engine.model.model._normalize_context_k = MethodType(first_layers_norm, engine.model.model)


def _never_loaded(engine: Engine) -> None:
    engine.parameters["model.layers.1.mlp.bias"] = Weight(1).weight


def _too_many(engine: Engine) -> None:
    engine.drafter.num_speculative_tokens = 9


def _few(engine: Engine) -> None:
    engine.drafter.num_speculative_tokens = 4


FAULTS: dict[str, tuple[Callable[[Engine], None], list[tuple[str, str | None]]]] = {
    "taps": (_taps, [("TD401", "taps.layers")]),
    "window": (_window, [("TD405", "attention.window")]),
    "causal": (_causal, [("TD407", "attention.causal")]),
    "mask": (_mask, [("TD404", "block.mask_token_id")]),
    "theta": (_theta, [("TD408", "rope.theta")]),
    "a table that is not its module's": (_attribute_lies, [("TD408", "rope.theta")]),
    "context keys with another table": (_context_table, [("TD408", "rope.theta")]),
    "layout": (_layout, [("TD408", "rope.layout")]),
    "own head": (_head, [("TD409", "head.source")]),
    "own embedding": (_embedding, [("TD409", "embedding.source")]),
    "logit scale": (_scale, [("TD409", "head.multiplier")]),
    "vocabulary map": (_map, [("TD409", "head.vocabulary_map")]),
    "k_norm": (_k_norm, [("TD426", None)]),
    "never loaded": (_never_loaded, [("TD201", None)]),
    "too many drafts": (_too_many, [("TD403", "block.width"), ("TD423", "block.proposals")]),
    "fewer drafts": (_few, [("TD403", "block.width")]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_gives_its_finding_and_no_other(name):
    change, expected = FAULTS[name]
    engine = Engine("tiny/dflash-full")
    change(engine)
    assert findings(engine) == expected


@pytest.mark.parametrize("name", ["tiny/dspark", "tiny/dspark-bonus"])
def test_the_slot_rule_is_read_from_the_speculator(name):
    engine = Engine(name, "v2")
    engine.drafter.sample_from_anchor = not engine.drafter.sample_from_anchor
    engine.drafter.num_query_per_req += 1 if not engine.drafter.sample_from_anchor else -1
    assert {axis for _, axis in findings(engine)} == {"block.first_slot", "block.width"}


def test_norms_of_a_chain_are_read():
    engine = Engine("tiny/eagle3")
    engine.model.model.norm_output = True
    engine.model.model.fc_norm = object()
    engine.model.model.layers[0]._residual_norm = engine.model.model.layers[0].forward
    axes = {"chain.feedback", "chain.norm_before_residual", "fusion.tap_norm"}
    assert {axis for _, axis in findings(engine)} == axes


def test_a_half_precision_table_of_the_right_base_passes():
    engine = Engine("tiny/dflash-full")
    table = Rotary(32, 1e4, torch.bfloat16).cos_sin_cache
    for layer in engine.layers:
        layer.rotary_emb.cos_sin_cache = table
    engine.model.model._rope_cos_sin_cache = table
    assert findings(engine) == []


def test_an_own_table_equal_to_the_targets_is_dropped_without_a_finding():
    engine = Engine("tiny/dspark", "v2")
    assert engine.contract["head.source"] == "own"
    engine.model.lm_head = engine.target.lm_head
    engine.model.model.embed_tokens = engine.target.model.embed_tokens
    assert findings(engine) == []


def test_a_stage_without_the_targets_tables_says_nothing_of_sharing():
    engine = Engine("tiny/dflash-full")
    engine.own("embed_tokens")
    engine.target.model.embed_tokens = torch.nn.Identity()
    del engine.parameters["shared.model.embed_tokens.weight"]
    assert findings(engine) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.qkv_proj.weight"),
        ("model.layers.1.mlp.up_proj.weight", "layers.1.mlp.gate_up_proj.weight"),
        ("midlayer.self_attn.v_proj.weight", "layers.0.self_attn.qkv_proj.weight"),
        ("encoder.fc.weight", "fc.weight"),
        ("encoder.output_norm_enc.weight", "hidden_norm.weight"),
        ("layers.0.self_attn.q_norm.weight", "layers.0.self_attn.q_norm.weight"),
        ("d2t", "draft_id_to_target_id"),
    ],
)
def test_names_of_tensors_become_vllms(name, expected):
    assert vllm_name(name) == expected


def test_weights_that_a_backend_has_emptied_are_still_the_drafters():
    engine = Engine("tiny/dflash-full")
    engine.target.packed = Weight(0)
    engine.parameters["model.layers.0.self_attn.qkv_proj.weight"] = Weight(0).weight
    engine.parameters["model.layers.9.self_attn.qkv_proj.weight"] = Weight(0).weight
    live = read_engine(engine.config, engine.runner, VERSION)
    assert live is not None
    assert "model.layers.0.self_attn.qkv_proj.weight" in live.parameters
    assert findings(engine) == [("TD201", None)]


def test_scales_of_kernels_are_no_missing_parameters():
    engine = Engine("tiny/dflash-full")
    engine.parameters["model.layers.0.self_attn.qkv_proj.weight_scale"] = Weight(1).weight
    assert findings(engine) == []


def test_the_block_drop_needs_the_prefix_cache():
    engine = Engine("tiny/dflash-full")
    live = read_engine(engine.config, engine.runner, VERSION)
    assert live is not None
    assert live.block_drop
    engine.config.cache_config.enable_prefix_caching = False
    live = read_engine(engine.config, engine.runner, VERSION)
    assert live is not None
    assert not live.block_drop


def test_a_process_without_a_drafter_is_left_alone():
    engine = Engine("tiny/dflash-full")
    engine.runner.drafter = None
    assert read_engine(engine.config, engine.runner, VERSION) is None


def test_a_drafter_of_another_class_is_read_as_far_as_it_goes():
    engine = Engine("tiny/dflash-full")
    engine.model.__class__ = type("DFlashLagunaForCausalLM", (torch.nn.Module,), {})
    live = read_engine(engine.config, engine.runner, VERSION)
    assert live is not None
    effective = read_effective(engine.contract, live, None)
    assert {"taps.layers", "block.width"} <= set(effective.facts)
    assert "attention.window" not in effective.facts
