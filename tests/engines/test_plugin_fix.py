"""`TRUEDRAFT=fix`: which keys it edits, what it refuses, and what it mends on loaded objects."""

from __future__ import annotations

import math
import sys
from types import MethodType, SimpleNamespace

import pytest
import torch
from fake_vllm import VERSION, Engine, Weight, first_layers_norm, yarn_factor

from truedraft import resolve
from truedraft.contract import AXES, Record
from truedraft.engines.vllm import session
from truedraft.engines.vllm.draft_config import DraftConfig
from truedraft.engines.vllm.edits import MENDABLE, Edit, Place, Refused, steps
from truedraft.engines.vllm.facts import LiveRope
from truedraft.engines.vllm.judge import K_NORM
from truedraft.engines.vllm.live_layers import k_norm_error
from truedraft.engines.vllm.rope_table import frequencies, measured_base, turns_as
from truedraft.engines.vllm.settings import Settings
from truedraft.models.rope import inverse_frequencies


def place(name="tiny/dflash-full", *overrides, v2=None):
    contract = resolve(name, overrides=overrides).contract
    return Place(contract, contract.family == "dspark", v2)


def edited(axis, where):
    found = list(steps(axis, where))
    assert all(isinstance(step, Edit) for step in found), found
    return {step.path: step.value for step in found}


@pytest.mark.parametrize(
    ("axis", "where", "expected"),
    [
        ("taps.layers", place(), {"eagle_aux_hidden_state_layer_ids": [2, 5, 7]}),
        (
            "taps.layers",
            place("tiny/eagle3"),
            {"eagle_aux_hidden_state_layer_ids": [2, 5, 8], "num_aux_hidden_states": 3},
        ),
        ("attention.causal", place(), {"is_causal": False}),
        (
            "attention.causal",
            place("tiny/dflash"),
            {"is_causal": None, "dflash_config/causal": None},
        ),
        (
            "attention.window",
            place("tiny/dflash-full", "attention.window=16"),
            {
                "layer_types": ["sliding_attention"] * 2,
                "sliding_window": 16,
                "dflash_config/use_swa": None,
                "dflash_config/swa_window_size": 16,
                "is_causal": False,
            },
        ),
        (
            "rope.theta",
            place("tiny/dflash-full", "rope.theta=1e6"),
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        ),
        (
            "rope.scaling",
            place(
                "tiny/dflash-full",
                "rope.scaling=yarn:factor=4:original_max_position_embeddings=256",
                "rope.attention_factor=1.25",
                "rope.rotary_dims=16",
            ),
            {
                "rope_parameters": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 256,
                    "attention_factor": 1.25,
                    "rope_theta": 1e4,
                    "partial_rotary_factor": 0.5,
                }
            },
        ),
        ("rope.layout", place("tiny/dflash-full", "rope.layout=interleaved"), {"is_neox_style": False}),
        ("block.mask_token_id", place(), {"dflash_config/mask_token_id": 1, "mask_token_id": 1}),
        ("block.mask_token_id", place("tiny/dspark"), {"mask_token_id": 1}),
        ("block.first_slot", place("tiny/dspark"), {"sample_from_anchor": True}),
        ("block.first_slot", place("tiny/dspark-bonus"), {"sample_from_anchor": False}),
        ("head.multiplier", place("tiny/dflash-full", "head.multiplier=2"), {"logit_scale": 2.0}),
        ("chain.norm_before_residual", place("tiny/eagle3"), {"norm_before_residual": True}),
        ("chain.feedback", place("tiny/eagle3", "chain.feedback=post_norm"), {"norm_output": True}),
        ("fusion.tap_norm", place("tiny/eagle3"), {"fc_norm": False}),
    ],
)
def test_the_keys_of_an_axis(axis, where, expected):
    assert edited(axis, where) == expected


@pytest.mark.parametrize(
    ("axis", "where", "why"),
    [
        ("taps.layers", place("tiny/dflash-full", "taps.layers=6,4,1"), "in the order of layers"),
        ("attention.window", place("tiny/dflash"), "VLLM_USE_V2_MODEL_RUNNER=1"),
        ("attention.window", place("tiny/dflash", "attention.window=16,none,32", v2=True), "one window"),
        ("attention.causal", place("tiny/dflash", v2=False), "one flag for all layers"),
        ("attention.causal", place("tiny/dflash", "attention.causal=true,true,false"), "a mixture"),
        ("rope.theta", place("tiny/dflash", "rope.theta[1]=1e6"), "one rotary table"),
        ("rope.attention_factor", place("tiny/dflash", "rope.attention_factor=2"), "YaRN only"),
        ("rope.layout", place("tiny/eagle3", "rope.layout=interleaved"), "rotate halves"),
        ("block.first_slot", place("tiny/dflash-full", "block.first_slot=predicts_next"), "K masks"),
        ("attention.window_rule", place("tiny/dflash-speculators"), "no setting"),
        ("fusion.tap_norm", place(), "no such norm"),
        ("head.vocabulary_map", place("tiny/eagle3"), "no setting"),
    ],
)
def test_what_cannot_be_set_is_refused(axis, where, why):
    refused = [step for step in steps(axis, where) if isinstance(step, Refused)]
    assert len(refused) == 1
    assert why in refused[0].why


def test_mendable_axes_exist():
    assert set(AXES) >= MENDABLE


def test_paths_of_a_config():
    inner = SimpleNamespace(dflash_config={"causal": True, "other": 1}, plain=3)
    config = DraftConfig(inner)
    assert config.get("dflash_config/causal") is True
    assert config.get("nothing/there") is None
    before = inner.dflash_config
    config.set("dflash_config/causal", None)
    config.set("new/key", 2)
    config.set("plain", 4)
    assert inner.dflash_config == {"other": 1}
    assert before["causal"] is True, "the dict may be shared with another config"
    assert (inner.new, inner.plain) == ({"key": 2}, 4)


@pytest.fixture
def version(monkeypatch):
    monkeypatch.setattr(session, "vllm_version", lambda: VERSION)
    monkeypatch.delenv("VLLM_USE_V2_MODEL_RUNNER", raising=False)


def mended(engine, settings, caplog):
    session.mend_config(engine.config.speculative_config, engine.config.model_config, settings)
    return [record.getMessage() for record in caplog.records]


def test_only_what_the_release_would_run_otherwise_is_edited(version, caplog):
    engine = Engine("tiny/dflash-full")
    config = engine.config.speculative_config.draft_model_config.hf_config
    before = dict(vars(config))
    assert mended(engine, Settings("fix"), caplog) == []
    assert vars(config) == before


def test_overrides_are_written_and_logged_before_and_after(version, caplog):
    engine = Engine("tiny/dflash-full")
    settings = Settings("fix", overrides=("taps.layers=0,3,5", "rope.theta=1e6"))
    lines = mended(engine, settings, caplog)
    config = engine.config.speculative_config.draft_model_config.hf_config
    assert config.eagle_aux_hidden_state_layer_ids == [1, 4, 6]
    assert config.rope_parameters["rope_theta"] == 1e6
    assert lines == [
        "truedraft fix taps.layers: 1,4,6 -> 0,3,5 (eagle_aux_hidden_state_layer_ids absent -> [1, 4, 6])",
        "truedraft fix rope.theta: 2×10000 -> 2×1000000 "
        "(rope_parameters absent -> {'rope_type': 'default', 'rope_theta': 1000000.0})",
    ]


def test_only_the_named_axes_are_edited(version, caplog):
    engine = Engine("tiny/dflash-full")
    settings = Settings("fix", ("rope",), ("taps.layers=0,3,5", "rope.theta=1e6"))
    mended(engine, settings, caplog)
    config = engine.config.speculative_config.draft_model_config.hf_config
    assert not hasattr(config, "eagle_aux_hidden_state_layer_ids")
    assert config.rope_parameters["rope_theta"] == 1e6


def test_refusals_are_logged(version, caplog):
    engine = Engine("tiny/dflash-full")
    lines = mended(engine, Settings("fix", overrides=("taps.layers=6,4,1",)), caplog)
    assert len(lines) == 1
    assert lines[0].startswith("truedraft fix leaves taps.layers at 1,4,6, not 6,4,1: vLLM concatenates")


def test_k_is_the_users_unless_it_is_named(version, caplog):
    engine = Engine("tiny/dflash-full")
    engine.config.speculative_config.num_speculative_tokens = 4
    assert mended(engine, Settings("fix"), caplog) == []
    lines = mended(engine, Settings("fix", ("block",)), caplog)
    assert engine.config.speculative_config.num_speculative_tokens == 7
    assert lines == ["truedraft fix block.proposals: 4 -> 7 (num_speculative_tokens 4 -> 7)"]


def test_other_releases_and_other_drafters_are_not_edited(version, caplog, monkeypatch):
    settings = Settings("fix", overrides=("rope.theta=1e6",))
    engine = Engine("tiny/dflash-full")
    engine.config.speculative_config.method = "ngram"
    assert mended(engine, settings, caplog) == []
    session.mend_config(None, None, settings)
    monkeypatch.setattr(session, "vllm_version", lambda: "0.33.0")
    engine.config.speculative_config.method = "dflash"
    assert mended(engine, settings, caplog) == []


def test_the_fused_norm_is_mended_layer_by_layer(version, caplog, monkeypatch):
    def rms_norm(out, keys, weight, eps):
        scale = torch.rsqrt(keys.pow(2).mean(-1, keepdim=True) + eps)
        out.copy_(keys * scale * weight)

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(_custom_ops=SimpleNamespace(rms_norm=rms_norm)))
    engine = Engine("tiny/dflash-full")
    inner = engine.model.model
    inner._normalize_context_k = MethodType(first_layers_norm, inner)
    assert k_norm_error(inner) > K_NORM
    judgement = session.examine(engine.config, engine.runner, Settings("fix"))
    assert judgement.findings == ()
    assert k_norm_error(inner) < 1e-5
    assert "truedraft fix k_norm of context keys" in caplog.text


def test_a_head_that_nothing_filled_becomes_the_targets(version, caplog):
    engine = Engine("tiny/dflash-full")
    engine.own("lm_head")
    judgement = session.examine(engine.config, engine.runner, Settings("fix"))
    assert judgement.findings == ()
    assert engine.model.lm_head is engine.target.lm_head
    assert "truedraft fix head.source: own, never loaded -> target" in caplog.text


def test_a_head_of_another_shape_is_left(version, caplog):
    engine = Engine("tiny/dflash-full")
    engine.model.lm_head = Weight(7, 128)
    judgement = session.examine(engine.config, engine.runner, Settings("fix"))
    assert "head.source" in {finding.axis for finding in judgement.findings}
    assert "truedraft fix leaves head.source" in caplog.text


SCALINGS = (
    None,
    Record({"kind": "linear", "factor": 4.0}),
    Record({"kind": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096.0}),
    Record(
        {
            "kind": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 256.0,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "truncate": False,
        }
    ),
    Record(
        {
            "kind": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 256.0,
        }
    ),
)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(("theta", "dims"), [(1e4, 32), (1e6, 128), (5e5, 64)])
def test_frequencies_are_those_of_the_engine(theta, dims, scaling):
    expected = inverse_frequencies(theta, dims, scaling).tolist()
    assert frequencies(theta, dims, scaling) == pytest.approx(expected, rel=1e-5)


def _rope(theta, dims, scaling, factor, positions=(1, 3, 17, 128, 1000)):
    rows = {}
    for position in positions:
        angles = [position * f for f in frequencies(theta, dims, scaling)]
        rows[position] = (
            tuple(factor * math.cos(a) for a in angles),
            tuple(factor * math.sin(a) for a in angles),
        )
    return LiveRope("RotaryEmbedding", dims, True, 0.0, None, rows, True)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_table_turns_as_its_own_settings_only(scaling):
    factor = yarn_factor(8.0) if scaling is not None and scaling["kind"] == "yarn" else 1.0
    rope = _rope(1e6, 64, scaling, factor)
    assert turns_as(rope, 1e6, 64, scaling, factor)
    assert not turns_as(rope, 1e6, 64, scaling, factor * 1.05)
    assert not turns_as(rope, 1.01e6, 64, scaling, factor)
    assert not turns_as(rope, 1e6, 32, scaling, factor)
    for other in SCALINGS:
        assert (other == scaling) == turns_as(rope, 1e6, 64, other, factor)


def test_the_base_of_a_table_is_found():
    assert measured_base(_rope(5e5, 128, None, 1.0)) == 5e5
    assert measured_base(_rope(1e4, 32, None, 1.3)) == 1e4
