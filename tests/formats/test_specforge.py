"""SpecForge's DSpark, and what is known by name and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints import DELETE, TARGET, ZLAB, changed, refused_in_one_line, write

from truedraft.contract import Contract, InputError
from truedraft.formats import expected, resolve

DSPARK = changed(
    ZLAB,
    {
        "architectures": ["DSparkDraftModel"],
        "block_size": 7,
        "auto_map": {"AutoModel": "dspark.DSparkDraftModel"},
        "dflash_config/attention_mode": "gqa",
        "dflash_config/projector_type": "dspark",
        "dflash_config/markov_rank": 24,
        "dflash_config/markov_head_type": "vanilla",
        "dflash_config/confidence_head_alpha": 1.0,
        "dflash_config/enable_confidence_head": True,
        "dflash_config/confidence_head_with_markov": True,
    },
)
TOP = {
    "markov_rank": 24,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}


def found(path: Path, config: dict[str, Any], tensors: dict[str, tuple[int, ...]] | None = None) -> Contract:
    target = write(path / "target", TARGET)
    directory = path / ("config" if tensors is None else "draft")
    return resolve(target, write(directory, config, tensors)).contract


def test_dspark_on_a_borrowed_head(tmp_path: Path) -> None:
    contract = found(tmp_path, DSPARK)
    values = {
        "taps.layers": (1, 3, 5),
        "block.first_slot": "predicts_next",
        "block.width": 7,
        "block.proposals": 7,
        "attention.causal": (True, True, False),
        "attention.window": (16, 16, None),
        "embedding.source": "target",
        "head.source": "target",
        "head.softcap_order": "before_sequence_head",
        "markov.kind": "vanilla",
        "markov.rank": 24,
        "markov.previous": "previous_token",
        "confidence.input": "post_norm",
        "confidence.bias": True,
        "confidence.with_markov": True,
    }
    for axis, value in values.items():
        assert contract[axis] == value, axis
    assert (contract.family, contract.dialect) == ("dspark", "specforge")
    assert contract.unsettled == contract.conflicts == contract.unread_keys == ()
    source = contract.axes["markov.rank"].source
    assert source is not None
    assert source.where == "draft/config.json#/dflash_config/markov_rank"


@pytest.mark.parametrize("architecture", ["Qwen3DSparkModel", "DFlashDraftModel"])
def test_an_export_for_an_engine_is_still_specforges(architecture: str, tmp_path: Path) -> None:
    """With DeepSpec's architecture it would be read as having tables of its own and no causal layers."""
    native = found(tmp_path, DSPARK)
    export = found(tmp_path, DSPARK | TOP | {"architectures": [architecture]})
    assert export.dialect == "specforge"
    assert export.hash == native.hash
    assert export.unread_keys == ()


def test_heads_without_keys_are_unknown_until_tensors_settle_them(tmp_path: Path) -> None:
    bare = changed(DSPARK, {f"dflash_config/{key}": DELETE for key in TOP})
    assert {"markov.kind", "markov.rank", "confidence.input"} <= set(found(tmp_path, bare).unsettled)
    needed = expected(found(tmp_path, DSPARK))
    tensors = {name: tuple(dim or 0 for dim in dims) for name, dims in needed.items()}
    assert found(tmp_path, bare, tensors).hash == found(tmp_path, DSPARK).hash


def test_heads_of_early_checkpoints(tmp_path: Path) -> None:
    tensors = {}
    for name, dims in expected(found(tmp_path, DSPARK)).items():
        nested = "logit_head." if name.startswith(("markov_head", "confidence_head")) else ""
        tensors[nested + name] = tuple(dim or 0 for dim in dims)
    contract = found(tmp_path, DSPARK, tensors)
    assert contract.unsettled == contract.unread_keys == ()


def test_a_tap_of_the_last_layer_is_a_guess(tmp_path: Path) -> None:
    assert found(tmp_path, DSPARK).inferred == ()
    contract = found(tmp_path, changed(DSPARK, {"dflash_config/target_layer_ids": [1, 7]}))
    assert contract.inferred == ("taps.state",)


def test_no_heads_is_dflash(tmp_path: Path) -> None:
    none = {"dflash_config/markov_rank": 0, "dflash_config/enable_confidence_head": False}
    contract = found(tmp_path, changed(DSPARK, none))
    assert contract.family == "dflash"
    assert contract["block.first_slot"] == "predicts_next"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nested against top level": (
        {"markov_rank": 32},
        "markov_rank: found 32, expected 24 (draft/config.json#/df",
    ),
    "rank as text": ({"dflash_config/markov_rank": "24"}, "markov_rank: found '24', expected a whole number"),
    "negative rank": ({"dflash_config/markov_rank": -1}, "found -1, expected a number >= 0"),
    "kind": ({"dflash_config/markov_head_type": "lstm"}, "found 'lstm', expected one of vanilla"),
    "repeated taps": ({"dflash_config/target_layer_ids": [1, 1]}, "found repeated taps"),
    "tap beyond": ({"dflash_config/target_layer_ids": [1, 9]}, "a tap beyond the target, found 9"),
    "width": ({"hidden_size": 32}, "found hidden size 32, expected the target's 64"),
    "domino": ({"dflash_config/projector_type": "domino"}, "found Domino, which is not supported"),
    "another projector": (
        {"dflash_config/projector_type": "x"},
        "unknown family: architectures ['DSparkDraft",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    refused_in_one_line(lambda: found(tmp_path, changed(DSPARK, changes)), message)


BY_NAME: dict[str, tuple[dict[str, Any], str]] = {
    "DFlash 2": ({"architectures": ["DFlash2DraftModel"]}, "DFlash 2"),
    "DFlash 2 under another name": ({"dflash_config": {"selector_rank": 256}}, "DFlash 2"),
    "Domino": ({"architectures": ["DominoDraftModel"]}, "Domino"),
    "P-EAGLE": ({"architectures": ["PEagleDraftModel"]}, "P-EAGLE"),
    "MiMo": ({"dflash_config": {"attention_sink_bias": True}}, "MiMo DFlash"),
    "Gemma 4": ({"architectures": ["Gemma4DSparkModel"]}, "DeepSpec DSpark for Gemma 4"),
    "DeepSeek-V4": ({"model_type": "deepseek_v4"}, "a target's config"),
    "architectures as text": ({"architectures": "DFlash2DraftModel"}, "unknown family"),
    "architectures of numbers": ({"architectures": [1]}, "unknown family"),
    "dflash_config as list": ({"dflash_config": ["selector_rank"]}, "unknown family"),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_refused_by_name(name: str, tmp_path: Path) -> None:
    config, message = BY_NAME[name]
    with pytest.raises(InputError) as caught:
        found(tmp_path, config)
    assert message in str(caught.value)
    assert "not supported" in str(caught.value) or "unknown family" in str(caught.value)
    assert "\n" not in str(caught.value)
