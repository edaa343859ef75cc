"""Tensors against the contract: names and shapes of real checkpoints, and of broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoints import DEEPSPEC, GOLDENS, TARGET, ZLAB, changed, write

from truedraft.contract import InputError
from truedraft.formats import expected, resolve

CASES = sorted(path.name for path in GOLDENS.iterdir() if (path / "draft").is_dir())


@pytest.mark.parametrize("case", CASES)
def test_real_checkpoint_is_fully_used(case: str) -> None:
    found = resolve(GOLDENS / case / "target", GOLDENS / case / "draft")
    assert found.contract.unread_keys == ()
    assert found.contract.conflicts == ()
    assert found.contract.unsettled == ()
    assert {n: r.shape for n, r in found.tensors.items()} == expected(found.contract)
    assert set(found.tensors) == set(found.draft.tensors) - {"t2d"}


def shapes(tmp_path: Path, config: dict[str, object], *overrides: str) -> dict[str, tuple[int, ...]]:
    """All tensors that a drafter with this config needs."""
    found = resolve(write(tmp_path / "t", TARGET), write(tmp_path / "shapes", config), overrides)
    out = {}
    for name, dims in expected(found.contract).items():
        assert None not in dims, name
        out[name] = tuple(dim for dim in dims if dim is not None)
    return out


def test_tensors_settle_sizes_that_the_config_does_not_state(tmp_path: Path) -> None:
    tensors = shapes(tmp_path, ZLAB)
    sizes = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "attention_bias")
    bare = {k: v for k, v in ZLAB.items() if k not in (*sizes, "num_key_value_heads", "head_dim")}
    contract = resolve(write(tmp_path / "t", TARGET), write(tmp_path / "draft", bare, tensors)).contract
    full = resolve(tmp_path / "t", write(tmp_path / "full", ZLAB, tensors)).contract
    assert contract.hash == full.hash
    assert contract.unsettled == ()
    source = contract.axes["backbone.head_dim"].source
    assert source is not None
    assert source.kind == "shape"
    assert source.where.startswith("draft/model.safetensors#layers.0.self_attn.")


@pytest.mark.parametrize(
    ("change", "axis"),
    [
        ({"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}, "backbone.layers"),
        ({"intermediate_size": 96}, "backbone.intermediate_size"),
        ({"num_attention_heads": 3}, "backbone.heads"),
        ({"num_key_value_heads": 6}, "backbone.kv_heads"),
        ({"head_dim": 32}, "backbone.head_dim"),
        ({"attention_bias": True}, "backbone.attention_bias"),
    ],
)
def test_config_and_tensors_disagree(change: dict[str, object], axis: str, tmp_path: Path) -> None:
    tensors = shapes(tmp_path, ZLAB)
    draft = write(tmp_path / "draft", ZLAB | change, tensors)
    contract = resolve(tmp_path / "t", draft).contract
    assert [conflict.axis for conflict in contract.conflicts] == [axis]
    assert contract.unsettled == (axis,)


BROKEN: dict[str, tuple[dict[str, tuple[int, ...] | None], str]] = {
    "missing fc": ({"fc.weight": None}, "no tensor fc.weight, expected one of shape [64, 192]"),
    "missing norm": ({"layers.1.input_layernorm.weight": None}, "no tensor layers.1.input_layernorm.weight"),
    "fc of another width": (
        {"fc.weight": (64, 128)},
        "fc.weight: found shape [64, 128], expected [64, 192] (dr",
    ),
    "transposed": ({"layers.0.mlp.down_proj.weight": (48, 64)}, "found shape [48, 64], expected [64, 48]"),
    "one layer differs": ({"layers.1.self_attn.q_proj.weight": (64, 64)}, "expected [96, 64]"),
    "scalar": ({"norm.weight": ()}, "norm.weight: found shape [], expected [64]"),
    "rank": ({"norm.weight": (64, 1)}, "found shape [64, 1], expected [64]"),
    "empty": ({"layers.0.self_attn.q_norm.weight": (0,)}, "found shape [0], expected [16]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tensors(name: str, tmp_path: Path) -> None:
    changes, message = BROKEN[name]
    tensors = shapes(tmp_path, ZLAB) | {n: s for n, s in changes.items() if s is not None}
    kept = {n: s for n, s in tensors.items() if changes.get(n, ()) is not None}
    with pytest.raises(InputError) as caught:
        resolve(tmp_path / "t", write(tmp_path / "draft", ZLAB, kept))
    assert message in str(caught.value)


def test_surplus_tensors_are_unread_keys(tmp_path: Path) -> None:
    tensors = shapes(tmp_path, ZLAB) | {"d2t": (256,), "lm_head.weight": (256, 64)}
    contract = resolve(tmp_path / "t", write(tmp_path / "draft", ZLAB, tensors)).contract
    assert contract.unread_keys == ("draft/model.safetensors#d2t", "draft/model.safetensors#lm_head.weight")


@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
def test_tensors_settle_the_sequence_head(kind: str, tmp_path: Path) -> None:
    config = DEEPSPEC | {"markov_head_type": kind}
    tensors = shapes(tmp_path, config)
    heads = ("markov_rank", "markov_head_type", "enable_confidence_head", "confidence_head_with_markov")
    bare = {k: v for k, v in config.items() if k not in heads}
    contract = resolve(tmp_path / "t", write(tmp_path / "draft", bare, tensors)).contract
    assert contract["markov.kind"] == kind
    assert contract["markov.rank"] == 24
    assert contract["confidence.with_markov"] is True
    assert contract.hash == resolve(tmp_path / "t", write(tmp_path / "full", config, tensors)).contract.hash


def test_stated_head_that_the_tensors_lack(tmp_path: Path) -> None:
    tensors = shapes(tmp_path, changed(DEEPSPEC, {"markov_head_type": "vanilla"}))
    draft = write(tmp_path / "draft", DEEPSPEC | {"markov_head_type": "rnn"}, tensors)
    assert resolve(tmp_path / "t", draft).contract.unsettled == ("markov.kind",)
    assert resolve(tmp_path / "t", draft, ["markov.kind=vanilla"]).contract.unsettled == ()
    with pytest.raises(InputError, match=r"no tensor markov_head\.joint_proj\.weight"):
        resolve(tmp_path / "t", draft, ["markov.kind=rnn"])
