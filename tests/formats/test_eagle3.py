"""EAGLE-3 heads of SafeAILab, SpecForge, ModelOpt and AngelSlim: which layers, which norms, which tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints import DELETE, TARGET, changed, write

from truedraft.contract import Contract, InputError
from truedraft.formats import Resolution, expected, resolve

HEAD: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "draft_vocab_size": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 500000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "pretraining_tp": 1,
    "mlp_bias": False,
}
DEFAULT = (1, 3, 4)  # of eight layers: 1, N//2-1, N-4
NESTED = "eagle_config/eagle_aux_hidden_state_layer_ids"
TOP = "eagle_aux_hidden_state_layer_ids"
ANGELSLIM = {"architectures": ["Eagle3LlamaForCausalLM"]}


def found(path: Path, changes: dict[str, Any], *overrides: str, layers: int = 8) -> Contract:
    target = write(path / f"target{layers}", TARGET | {"num_hidden_layers": layers})
    return resolve(target, write(path / "config", changed(HEAD, changes)), overrides).contract


def file_names(name: str, layer: str = "midlayer") -> str:
    return name.replace("layers.0", layer)


def weights(path: Path, changes: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """All tensors of such a head under canonical names, with an embedding of its own."""
    contract = found(path, changes, "embedding.source=own")
    out = {}
    for name, dims in expected(contract).items():
        out[name] = tuple(dim for dim in dims if dim is not None)
        assert len(out[name]) == len(dims), name
    return out


def with_tensors(path: Path, changes: dict[str, Any], tensors: dict[str, tuple[int, ...]]) -> Resolution:
    target = write(path / "target8", TARGET)
    return resolve(target, write(path / "draft", changed(HEAD, changes), tensors))


def test_the_arithmetic_of_the_published_code(tmp_path: Path) -> None:
    contract = found(tmp_path, {})
    assert (contract.family, contract.dialect) == ("eagle3", "eagle")
    values = {
        "taps.layers": DEFAULT,
        "taps.state": ("residual",) * 3,
        "fusion.tap_norm": False,
        "fusion.concat_norm": False,
        "fusion.fc": True,
        "fusion.output_norm": False,
        "chain.token": "next",
        "chain.position_offset": 0,
        "chain.norm_before_residual": False,
        "chain.feedback": "residual",
        "attention.window": (None,),
        "attention.scale": (0.25,),
        "rope.theta": (5e5,),
        "rope.rotary_dims": (16,),
        "head.source": "own",
        "head.vocabulary": 128,
        "head.vocabulary_map": "offset",
        "backbone.head_dim": 16,
        "backbone.qk_norm": False,
        "backbone.attention_bias": False,
    }
    for axis, value in values.items():
        assert contract[axis] == value, axis
        source = contract.axes[axis].source
        assert source is not None
        assert source.kind in ("stated", "family")
    for axis in ("block.width", "attention.causal", "fusion.input_norm_on_context", "markov.kind"):
        assert contract.axes[axis].state == "not_applicable", axis
    assert contract.axes["chain.steps"].state == "unknown"
    assert contract.unsettled == ("embedding.source",)  # no tensors
    assert contract.unread_keys == ()


SETTLED: dict[str, tuple[dict[str, Any], int, tuple[int, ...], str, str]] = {
    # name: (changes, target layers, taps, source kind, where)
    "no ids": ({}, 8, DEFAULT, "family", "SafeAILab/EAGLE"),
    "no ids, plain Llama": ({"architectures": ["LlamaForCausalLM"]}, 8, DEFAULT, "family", "SafeAILab/EAGLE"),
    "no ids, real size": ({}, 36, (1, 17, 32), "family", "SafeAILab/EAGLE"),
    "an empty list asks for the default": ({NESTED: []}, 8, DEFAULT, "family", "SafeAILab/EAGLE"),
    "top level counts entries": ({TOP: [2, 4, 7]}, 8, (1, 3, 6), "stated", TOP),
    "top level, embeddings": ({TOP: [0, 4, 8]}, 8, (-1, 3, 7), "stated", TOP),
    "nested id N can only be an entry": ({NESTED: [2, 5, 8]}, 8, (1, 4, 7), "stated", NESTED),
    "nested, default outputs": ({NESTED: [1, 3, 4]}, 8, DEFAULT, "inferred", "SpecForge"),
    "nested, default entries": ({NESTED: [2, 4, 5]}, 8, DEFAULT, "inferred", "vLLM"),
    "nested beside the top level": ({NESTED: [2, 5, 6], TOP: [3, 6, 7]}, 8, (2, 5, 6), "stated", TOP),
    "AngelSlim's two keys": (
        ANGELSLIM | {"aux_hidden_states_layer_ids": [1, 4, 6], TOP: [2, 5, 7]},
        8,
        (1, 4, 6),
        "stated",
        "aux_hidden_states_layer_ids",
    ),
}


@pytest.mark.parametrize("name", SETTLED)
def test_taps_that_something_settles(name: str, tmp_path: Path) -> None:
    changes, layers, taps, kind, where = SETTLED[name]
    contract = found(tmp_path, changes, layers=layers)
    source = contract.axes["taps.layers"].source
    assert contract["taps.layers"] == taps
    assert source is not None
    assert source.kind == kind
    assert where in source.where
    assert contract.conflicts == ()


CONTESTED: dict[str, tuple[dict[str, Any], int, list[tuple[int, ...]]]] = {
    "nested: outputs for the trainer, entries for vLLM": (
        {NESTED: [1, 17, 33]},
        36,
        [(1, 17, 33), (0, 16, 32)],
    ),
    "AngelSlim without ids, even depth": (ANGELSLIM, 8, [(1, 3, 4), (1, 3, 5)]),
    "AngelSlim without ids, odd depth": (ANGELSLIM, 43, [(1, 20, 39), (1, 21, 40)]),
    "AngelSlim's two keys differ by two": (
        ANGELSLIM | {"aux_hidden_states_layer_ids": [1, 4, 6], TOP: [3, 6, 8]},
        8,
        [(1, 4, 6), (2, 5, 7)],
    ),
}


@pytest.mark.parametrize("name", CONTESTED)
def test_taps_that_producers_read_differently(name: str, tmp_path: Path) -> None:
    changes, layers, readings = CONTESTED[name]
    contract = found(tmp_path, changes, layers=layers)
    (conflict,) = contract.conflicts
    assert conflict.axis == "taps.layers"
    assert [claim.value for claim in conflict.sources] == readings
    assert all(claim.source is not None and claim.source.where for claim in conflict.sources)
    assert "taps.layers" in contract.unsettled
    answer = ",".join(map(str, readings[1]))
    settled = found(tmp_path, changes, f"taps.layers={answer}", layers=layers)
    assert settled["taps.layers"] == readings[1]
    assert settled.conflicts == ()


@pytest.mark.parametrize(
    ("changes", "layers", "note"),
    [
        ({}, 5, "the default [1, 1, 1] is invalid for 5 layers"),
        ({}, 3, "is invalid for 3 layers"),
        ({"num_aux_hidden_states": 5}, 8, "num_aux_hidden_states asks for 5 taps, not the default three"),
    ],
)
def test_no_default_where_it_cannot_be(
    changes: dict[str, Any], layers: int, note: str, tmp_path: Path
) -> None:
    contract = found(tmp_path, changes, layers=layers)
    assert contract.axes["taps.layers"].state == "unknown"
    assert note in contract.axes["taps.layers"].note


AXES: dict[str, tuple[dict[str, Any], str, Any, str]] = {
    "EAGLE-3.1 tap norms": ({"fc_norm": True}, "fusion.tap_norm", True, "/fc_norm"),
    "norm over the concatenation": ({"norm_before_fc": True}, "fusion.concat_norm", True, "norm_before_fc"),
    "nested": ({"eagle_config/norm_before_fc": True}, "fusion.concat_norm", True, "eagle_config/norm_before"),
    "EAGLE-3.1 feedback": ({"norm_output": True}, "chain.feedback", "post_norm", "/norm_output"),
    "no EAGLE-3.1 feedback": ({"norm_output": False}, "chain.feedback", "residual", "/norm_output"),
    "residual": ({"norm_before_residual": True}, "chain.norm_before_residual", True, "/norm_before_residual"),
    "nested residual": (
        {"eagle_config/norm_before_residual": True},
        "chain.norm_before_residual",
        True,
        "eagle_config/norm_before_residual",
    ),
    "head dim": ({"head_dim": 32}, "backbone.head_dim", 32, "/head_dim"),
    "logit scale": ({"logit_scale": 0.5}, "head.multiplier", 0.5, "/logit_scale"),
    "rope of transformers 5": (
        {"rope_theta": DELETE, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}},
        "rope.theta",
        (1e6,),
        "rope_parameters",
    ),
}


@pytest.mark.parametrize("name", AXES)
def test_stated_options(name: str, tmp_path: Path) -> None:
    changes, axis, value, where = AXES[name]
    contract = found(tmp_path, changes)
    source = contract.axes[axis].source
    assert contract[axis] == value
    assert source is not None
    assert source.kind == "stated"
    assert where in source.where
    assert contract.unread_keys == ()


def test_post_norm_feedback_names_the_trainer_that_meant_another(tmp_path: Path) -> None:
    assert "PR 879" in found(tmp_path, {"norm_output": True}).axes["chain.feedback"].note
    assert found(tmp_path, {"norm_output": False}).axes["chain.feedback"].note == ""


def test_partial_rotary_is_a_conflict_between_trainer_and_engine(tmp_path: Path) -> None:
    contract = found(tmp_path, {"head_dim": 16, "partial_rotary_factor": 0.25})
    (conflict,) = contract.conflicts
    assert conflict.axis == "rope.rotary_dims"
    assert [claim.value for claim in conflict.sources] == [(16,), (4,)]


def test_no_theta_is_unknown_though_the_config_class_has_a_default(tmp_path: Path) -> None:
    assert found(tmp_path, {"rope_theta": DELETE}).axes["rope.theta"].state == "unknown"


def test_gemma_target_makes_the_embedding_scale_unknown(tmp_path: Path) -> None:
    target = write(tmp_path / "target", TARGET | {"model_type": "gemma3_text"})
    contract = resolve(target, write(tmp_path / "draft", HEAD)).contract
    assert contract.axes["embedding.scale"].state == "unknown"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "ids as text": ({NESTED: ["1"]}, f"{NESTED}: found ['1'], expected a list of whole numbers"),
    "ids no list": ({TOP: 3}, f"{TOP}: found 3, expected a list of whole numbers"),
    "repeated ids": ({TOP: [2, 2, 5]}, "found repeated taps [1, 1, 4]"),
    "repeated nested ids": ({NESTED: [3, 3, 6]}, "found repeated taps"),
    "id beyond the target": ({TOP: [2, 4, 9]}, "a tap beyond the target, found 8, expected -1 to 7"),
    "nested id beyond the target": ({NESTED: [2, 4, 99]}, "a tap beyond the target, found 99"),
    "negative id": ({TOP: [-1, 4, 6]}, "found -2, expected a whole number >= -1"),
    "eagle_config as list": ({"eagle_config": [1]}, "eagle_config: found [1], expected an object"),
    "EAGLE without taps": (
        {"eagle_config/use_aux_hidden_state": False},
        "use_aux_hidden_state: found False, expected True",
    ),
    "no last norm": ({"eagle_config/use_last_layernorm": False}, "use_last_layernorm: found False"),
    "MLP biases": ({"mlp_bias": True}, "mlp_bias: found True, expected False"),
    "draft vocabulary": ({"draft_vocab_size": 512}, "found a draft vocabulary of 512, expected at most 256"),
    "no draft ids": ({"draft_vocab_size": 0}, "found 0, expected a whole number >= 1"),
    "vocabulary": ({"vocab_size": 300}, "vocabulary mismatch, found 300, expected 256"),
    "target width": ({"target_hidden_size": 32}, "target_hidden_size: found 32, expected 64"),
    "rope": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "found rope_type 'dynamic'"),
    "norm flag as text": ({"norm_output": "yes"}, "norm_output: found 'yes', expected true or false"),
    "P-EAGLE": ({"parallel_drafting": True}, "found P-EAGLE, which is not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(InputError) as caught:
        found(tmp_path, changes)
    assert message in str(caught.value)
    assert str(caught.value).startswith("draft/config.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("architectures", [["LlamaForCausalLM"], ["LlamaForCausalLMEagle"], []])
def test_a_llama_without_a_draft_vocabulary_is_no_eagle3(architectures: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown family"):
        found(tmp_path, {"architectures": architectures, "draft_vocab_size": DELETE})


@pytest.mark.parametrize("prefix", ["", "model."])
@pytest.mark.parametrize("layer", ["midlayer", "layers.0"])
def test_tensors_of_every_layout(prefix: str, layer: str, tmp_path: Path) -> None:
    tensors = weights(tmp_path, {})
    here = {}
    for name, shape in tensors.items():
        bare = name in ("d2t", "lm_head.weight")
        here[("" if bare else prefix) + file_names(name, layer)] = shape
    resolution = with_tensors(tmp_path, {}, here | {"t2d": (256,)})
    assert resolution.contract.unread_keys == ()
    assert resolution.contract.unsettled == ()
    assert {name: ref.shape for name, ref in resolution.tensors.items()} == tensors
    own = resolution.tensors["layers.0.self_attn.q_proj.weight"]
    assert own.name == f"{prefix}{layer}.self_attn.q_proj.weight"
    assert own.shape == (64, 128)
    assert resolution.contract["embedding.source"] == "own"


def test_messages_name_the_tensor_of_the_file(tmp_path: Path) -> None:
    tensors = {file_names(n): s for n, s in weights(tmp_path, {}).items()}
    broken = tensors | {"midlayer.self_attn.k_proj.weight": (32, 64)}
    message = r"draft/model\.safetensors#midlayer\.self_attn\.k_proj\.weight: found shape \[32, 64\]"
    with pytest.raises(InputError, match=message):
        with_tensors(tmp_path, {}, broken)
    contract = with_tensors(tmp_path, {}, tensors | {"midlayer.extra.weight": (1,)}).contract
    assert contract.unread_keys == ("draft/model.safetensors#midlayer.extra.weight",)


def test_two_tensors_for_one_name(tmp_path: Path) -> None:
    tensors = weights(tmp_path, {})
    twice = tensors | {"midlayer.hidden_norm.weight": (64,)}
    with pytest.raises(InputError, match=r"a second tensor for layers\.0\.hidden_norm\.weight"):
        with_tensors(tmp_path, {}, twice)


def test_a_checkpoint_that_leaves_out_the_embedding_borrows_it(tmp_path: Path) -> None:
    tensors = {n: s for n, s in weights(tmp_path, {}).items() if n != "embed_tokens.weight"}
    contract = with_tensors(tmp_path, {}, tensors).contract
    source = contract.axes["embedding.source"].source
    assert contract["embedding.source"] == "target"
    assert source is not None
    assert source.kind == "shape"
    assert contract.unsettled == ()


def test_a_narrow_drafter_cannot_borrow(tmp_path: Path) -> None:
    narrow = {"hidden_size": 32, "target_hidden_size": 64}
    tensors = {n: s for n, s in weights(tmp_path, narrow).items() if n != "embed_tokens.weight"}
    with pytest.raises(InputError, match="found hidden size 32, expected the target's 64"):
        with_tensors(tmp_path, narrow, tensors)


def test_a_head_that_is_missing_is_borrowed_only_if_it_fits(tmp_path: Path) -> None:
    whole = {"draft_vocab_size": 256}
    tensors = {n: s for n, s in weights(tmp_path, whole).items() if n != "lm_head.weight"}
    contract = with_tensors(tmp_path, whole, tensors).contract
    assert (contract["head.source"], contract["head.vocabulary_map"]) == ("target", "none")
    reduced = {n: s for n, s in weights(tmp_path, {}).items() if n != "lm_head.weight"}
    with pytest.raises(InputError, match=r"no tensor lm_head\.weight, expected one of shape \[128, 64\]"):
        with_tensors(tmp_path, {}, reduced)


def test_a_map_of_the_whole_vocabulary_is_read(tmp_path: Path) -> None:
    """SpecForge saves one, of zeros."""
    whole = {"draft_vocab_size": 256}
    tensors = weights(tmp_path, whole) | {"d2t": (256,), "t2d": (256,)}
    contract = with_tensors(tmp_path, whole, tensors).contract
    assert (contract["head.vocabulary_map"], contract.unread_keys) == ("offset", ())


def test_a_reduced_vocabulary_needs_its_map(tmp_path: Path) -> None:
    tensors = {n: s for n, s in weights(tmp_path, {}).items() if n != "d2t"}
    with pytest.raises(InputError, match="no tensor d2t"):
        with_tensors(tmp_path, {}, tensors)


@pytest.mark.parametrize(
    ("key", "axis", "tensor"),
    [("fc_norm", "tap_norm", "fc_norm.2.weight"), ("norm_before_fc", "concat_norm", "input_norm.weight")],
)
def test_tensors_settle_what_the_config_leaves_out(tmp_path: Path, key: str, axis: str, tensor: str) -> None:
    tensors = weights(tmp_path, {key: True})
    bare = dict.fromkeys(("draft_vocab_size", "num_hidden_layers", "intermediate_size"), DELETE)
    contract = with_tensors(tmp_path, bare, tensors).contract
    assert contract[f"fusion.{axis}"] is True
    assert contract["head.vocabulary"] == 128
    assert tensor in tensors
    assert contract.unsettled == ()


def test_both_norms_before_fc_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fc_norm: found true beside norm_before_fc"):
        with_tensors(tmp_path, {}, weights(tmp_path, {"fc_norm": True, "norm_before_fc": True}))


def test_fc_of_another_width_takes_away_the_default_taps(tmp_path: Path) -> None:
    tensors = weights(tmp_path, {}) | {"fc.weight": (64, 5 * 64)}
    contract = with_tensors(tmp_path, {}, tensors).contract
    assert contract.axes["taps.layers"].state == "unknown"
    assert "fc.weight asks for 5 taps" in contract.axes["taps.layers"].note
