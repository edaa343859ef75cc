"""Every axis that DeepSeek-V4's stages honour, overridden, against the reference; the others are refused.

Where the reference has no switch, its config, its weights or its features are changed so that they mean the
same, or its parts are put together anew (`assembled`); its arithmetic is never touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from reference_deepseek_v4 import (
    Drafted,
    Sizes,
    hyper_head,
    inverse_frequencies,
    rms_norm,
    run_stage,
    stage_weights,
)
from safetensors.torch import save_file
from stage_pairs import (
    CONFIG,
    EMBEDDING,
    HEAD,
    STAGES,
    TAPS,
    TOKENS,
    VOCABULARY,
    WIDTH,
    WINDOW,
    Staged,
    close,
    drafted,
    same,
    write_stages,
)
from torch import Tensor

from truedraft.contract import InputError

ROWS, EPS, DIMS, HEAD_DIM, HEADS = 14, 1e-5, 8, 16, 6
CHANGE = 1e-3
"""Smallest difference that counts as a change: far above the tolerance."""

Weights = Mapping[str, Tensor]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Staged:
    return write_stages(tmp_path_factory.mktemp("staged"))


@pytest.fixture(scope="module")
def base(staged: Staged) -> Tensor:
    """Hidden states and logits without overrides, side by side."""
    found = drafted(staged.drafter()[1], ROWS)
    return torch.cat([found["hidden"], found["logits"]], -1)


def changes(base: Tensor, found: Mapping[str, Tensor]) -> None:
    """An override that changes nothing is not tested by agreement."""
    rows = min(len(base), len(found["logits"]))
    both = torch.cat([found["hidden"][-rows:], found["logits"][-rows:]], -1)
    assert float((base[-rows:] - both).abs().max()) > CHANGE


def chain(
    base_logits: Tensor, weights: Weights, anchor: int, *, follow: bool = True
) -> tuple[Tensor, Tensor]:
    """Greedy tokens and corrected logits of a vanilla Markov head on given base logits."""
    first, second = (weights[f"mtp.2.markov_head.markov_w{n}.weight"] for n in (1, 2))
    tokens, logits, previous = [], [], anchor
    for row in base_logits:
        logits.append(row + second @ first[previous])
        tokens.append(int(logits[-1].argmax()))
        previous = tokens[-1] if follow else anchor
    return torch.tensor(tokens), torch.stack(logits)


# ------------------------------------------------------------------ switches and keys of the reference

YARN = "yarn:factor=16:original_max_position_embeddings=64"

SWITCHES: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    "window slides": (("attention.window_rule=query",), {}, {"window_slides": True}),
    "causal": (("attention.causal=true",), {}, {"causal_block": True}),
    "both": (
        ("attention.causal=true", "attention.window_rule=query"),
        {},
        {"causal_block": True, "window_slides": True},
    ),
    "narrow block": (("block.width=3",), {}, {"width": 3}),
    "wide block": (("block.width=8",), {}, {"width": 8}),
    "first proposals": (("block.width=5", "block.proposals=2"), {}, {"proposals": 2}),
    "one row": (("block.width=1",), {}, {"width": 1}),
    "base of a stage": (
        ("rope.theta[1]=500",),
        {},
        {"rope_tables": [inverse_frequencies(theta, DIMS) for theta in (1e4, 500.0, 1e4)]},
    ),
    "linear rope": (
        ("rope.scaling[2]=linear:factor=4",),
        {},
        {"rope_tables": [inverse_frequencies(1e4, DIMS) / n for n in (1, 1, 4)]},
    ),
    "window": (("attention.window=4",), {"sliding_window": 4}, {}),
    "no window": (("attention.window=none",), {"sliding_window": 1000}, {}),
    "mask": (("block.mask_token_id=7",), {"dspark_noise_token_id": 7}, {}),
    "rotated dims": (("rope.rotary_dims=4",), {"qk_rope_head_dim": 4}, {}),
    "whole head": (("rope.rotary_dims=16",), {"qk_rope_head_dim": 16}, {}),
    "norm epsilon": (("backbone.norm_eps=0.05",), {"rms_norm_eps": 0.05}, {}),
    "mix epsilon": (("stages.mix_eps=0.05",), {"hc_eps": 0.05}, {}),
    "iterations": (("stages.sinkhorn_iterations=1",), {"hc_sinkhorn_iters": 1}, {}),
    "experts per token": (("stages.experts_per_token=5",), {"num_experts_per_tok": 5}, {}),
    "no shared expert": (("stages.shared_experts=0",), {"n_shared_experts": 0}, {}),
    "scaling": (("stages.routed_scaling=0.5",), {"routed_scaling_factor": 0.5}, {}),
    "clamp": (("stages.swiglu_limit=0.2",), {"swiglu_limit": 0.2}, {}),
    "no clamp": (("stages.swiglu_limit=none",), {"swiglu_limit": None}, {}),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_switches(staged: Staged, base: Tensor, name: str) -> None:
    overrides, keys, more = SWITCHES[name]
    _, drafter = staged.drafter(overrides)
    found = drafted(drafter, ROWS)
    same(found, staged.wanted(ROWS, keys, **more))
    if name != "first proposals":
        changes(base, found)


def test_fewer_proposals_are_the_first_of_the_same_block(staged: Staged, base: Tensor) -> None:
    _, drafter = staged.drafter(("block.width=5", "block.proposals=2"))
    close(drafted(drafter, ROWS)["logits"], base[:2, -VOCABULARY:])


# ------------------------------------------------------------------------- weights that mean the same


def each(weights: Weights, part: str, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """All stages' tensors of one name, changed."""
    names = [f"mtp.{stage}.{part}" for stage in range(STAGES)]
    return {**weights, **{name: change(weights[name]) for name in names}}


def order(weights: Weights, dims: Sequence[int]) -> dict[str, Tensor]:
    """The same function with the dimensions of every head in another order."""
    index = torch.tensor(dims)
    out = each(weights, "attn.wkv.weight", lambda w: w[index])
    out = each(out, "attn.kv_norm.weight", lambda w: w[index])
    heads = torch.cat([head * HEAD_DIM + index for head in range(HEADS)])
    out = each(out, "attn.wq_b.weight", lambda w: w[heads])
    group = heads[: HEADS // 3 * HEAD_DIM]
    return each(out, "attn.wo_a.weight", lambda w: w[:, group])


def rotated(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda w: torch.cat([w[:-DIMS], w[-DIMS:] * factor])


def times(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda w: w * factor


FIRST = [*range(HEAD_DIM - DIMS, HEAD_DIM), *range(HEAD_DIM - DIMS)]
"""Where the rotated dimensions come from if the first ones are meant: reference dim i is product dim …"""
HALVES = [*range(8), *(8 + i // 2 + (i % 2) * DIMS // 2 for i in range(DIMS))]

EQUIVALENT: dict[str, tuple[str, Callable[[Weights], dict[str, Tensor]]]] = {
    # the reference turns its last dims, which are then the product's first
    "placement": ("rope.placement=first", lambda w: order(w, [*range(DIMS, HEAD_DIM), *range(DIMS)])),
    # the reference pairs neighbours, which are then the product's i and i + dims/2
    "layout": ("rope.layout=half", lambda w: order(w, HALVES)),
    # K = V: the rotated part of both grows by f², of which the query would have had one and the output one
    "attention factor": (
        "rope.attention_factor=1.3",
        lambda w: each(w, "attn.kv_norm.weight", rotated(1.69)),
    ),
    # scores grow with the latent, the output is scaled back
    "scale": (
        "attention.scale=0.5",
        lambda w: each(each(w, "attn.kv_norm.weight", times(2)), "attn.wo_a.weight", times(0.5)),
    ),
    "no sinks": ("attention.sinks=false", lambda w: each(w, "attn.attn_sink", lambda s: s - 1e9)),
    "no sinks in a stage": (
        "attention.sinks[1]=false",
        lambda w: {**w, "mtp.1.attn.attn_sink": w["mtp.1.attn.attn_sink"] - 1e9},
    ),
    "no router bias": (
        "stages.router_bias=false",
        lambda w: each(w, "ffn.gate.bias", torch.zeros_like),
    ),
}


@pytest.mark.parametrize("name", EQUIVALENT)
def test_equivalent_weights(staged: Staged, base: Tensor, name: str) -> None:
    override, change = EQUIVALENT[name]
    contract, drafter = staged.drafter((override,))
    found = drafted(drafter, ROWS)
    same(found, staged.wanted(ROWS, weights=change(staged.weights)))
    # what an override switches off is a tensor without use
    unused = {"no sinks": 3, "no sinks in a stage": 1, "no router bias": 3}
    assert len(contract.unread_keys) == unused.get(name, 0)
    changes(base, found)


TABLES: dict[str, tuple[str, dict[str, Tensor]]] = {
    "embedding": ("embedding.scale=0.3", {"embedding": EMBEDDING * 0.3}),
    "multiplier": ("head.multiplier=0.5", {"head": HEAD * 0.5}),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(staged: Staged, base: Tensor, name: str) -> None:
    override, tables = TABLES[name]
    found = drafted(staged.drafter((override,))[1], ROWS)
    same(found, staged.wanted(ROWS, **tables))
    changes(base, found)


# ----------------------------------------------------------------------------- heads on the reference


def test_softcap_before_and_after_the_markov_head(staged: Staged, base: Tensor) -> None:
    wanted, anchor = staged.wanted(ROWS), int(TOKENS[ROWS])
    before = ("head.softcap=2",)
    tokens, logits = chain(2 * torch.tanh(wanted.base_logits / 2), staged.weights, anchor)
    found = drafted(staged.drafter(before)[1], ROWS)
    close(found["logits"], logits)
    assert found["tokens"].tolist() == tokens.tolist()
    changes(base, found)
    after = drafted(staged.drafter((*before, "head.softcap_order=after_sequence_head"))[1], ROWS)
    _, uncapped = chain(wanted.base_logits, staged.weights, anchor)
    close(after["logits"], 2 * torch.tanh(uncapped / 2))


def test_markov_head_reads_the_anchor_only(staged: Staged, base: Tensor) -> None:
    tokens, logits = chain(staged.wanted(ROWS).base_logits, staged.weights, int(TOKENS[ROWS]), follow=False)
    found = drafted(staged.drafter(("markov.previous=anchor",))[1], ROWS)
    close(found["logits"], logits)
    assert found["tokens"].tolist() == tokens.tolist()
    changes(base, found)


def test_no_markov_head(staged: Staged) -> None:
    found = drafted(staged.drafter(("markov.kind=none", "confidence.input=none"))[1], ROWS)
    close(found["logits"], staged.wanted(ROWS).base_logits)
    assert "confidence" not in found


def confidence(staged: Staged, tokens: Tensor, hidden: Tensor, weight: Tensor, *, markov: bool) -> Tensor:
    previous = [int(TOKENS[ROWS]), *tokens[:-1].tolist()]
    latent = staged.weights["mtp.2.markov_head.markov_w1.weight"][previous]
    return torch.cat([hidden, latent], -1) @ weight[0] if markov else hidden @ weight[0]


def test_confidence_after_the_norm(staged: Staged) -> None:
    """The fault that engines make with a dense drafter's head: the wrong hidden state, the same drafts."""
    wanted, found = staged.wanted(ROWS), drafted(staged.drafter(("confidence.input=post_norm",))[1], ROWS)
    normed = rms_norm(wanted.hidden_pre_norm, EPS, staged.weights["mtp.2.norm.weight"])
    weight = staged.weights["mtp.2.confidence_head.proj.weight"]
    after = torch.sigmoid(confidence(staged, wanted.tokens, normed, weight, markov=True))
    close(found["confidence"], after)
    close(found["logits"], wanted.logits)
    assert float((after - wanted.confidence).abs().max()) > CHANGE


def test_confidence_with_a_bias_and_without_the_markov_embedding(staged: Staged, tmp_path: Path) -> None:
    weight, bias = staged.weights["mtp.2.confidence_head.proj.weight"], torch.tensor([0.7])
    name = "mtp.2.confidence_head.proj"
    wanted = staged.wanted(ROWS)
    with_bias = write_stages(tmp_path / "bias", replaced={f"{name}.bias": bias})
    found = drafted(with_bias.drafter(("confidence.bias=true",))[1], ROWS)
    close(found["confidence"], torch.sigmoid(wanted.confidence_logits + 0.7))
    cut = weight[:, : CONFIG["hidden_size"]]
    alone = write_stages(tmp_path / "alone", replaced={f"{name}.weight": cut})
    found = drafted(alone.drafter(("confidence.with_markov=false",))[1], ROWS)
    plain = confidence(staged, wanted.tokens, wanted.hidden_pre_norm, cut, markov=False)
    close(found["confidence"], torch.sigmoid(plain))


# ------------------------------------------------------------------------- the reference's parts anew


def assembled(
    staged: Staged,
    rows: int,
    block: Sequence[int],
    positions: Sequence[int],
    seen: Callable[[int, int, int], bool],
    *,
    normed: bool = True,
    own_norm: bool = False,
) -> Tensor:
    """Hidden states of a block, stage by stage. `seen`: whether in a stage a slot sees a context row.

    `normed`: features pass main_norm. `own_norm`: and every stage's attn_norm.
    """
    sizes, weights = Sizes.read(CONFIG), staged.weights
    features = TAPS[:rows] @ weights["mtp.0.main_proj.weight"].T
    if normed:
        features = rms_norm(features, EPS, weights["mtp.0.main_norm.weight"])
    streams = torch.stack([torch.stack([EMBEDDING[token]] * sizes.hc_mult) for token in block])
    rope = inverse_frequencies(1e4, DIMS)
    for index in range(STAGES):
        stage = stage_weights(weights, index)
        context = rms_norm(features, EPS, stage["attn_norm.weight"]) if own_norm else features
        visible = torch.ones(len(block), rows + len(block), dtype=torch.bool)
        for slot in range(len(block)):
            for row in range(rows):
                visible[slot, row] = seen(index, slot, row)
        streams = run_stage(sizes, stage, streams, positions, context, range(rows), visible, rope)
    names = ("hc_head_fn", "hc_head_base", "hc_head_scale")
    return torch.stack([hyper_head(sizes, one, *(weights[f"mtp.2.{n}"] for n in names)) for one in streams])


def masks(first: int | None) -> list[int]:
    """A block: the anchor (or a mask for `None`), then masks."""
    noise = CONFIG["dspark_noise_token_id"]
    return [noise if first is None else first, *[noise] * (WIDTH - 1)]


def windowed(*windows: int | None, anchor: int = ROWS) -> Callable[[int, int, int], bool]:
    sizes = windows * STAGES if len(windows) == 1 else windows
    return lambda stage, slot, row: sizes[stage] is None or row >= anchor - (sizes[stage] or 0)


ANCHOR = int(TOKENS[ROWS])
AT = range(ROWS, ROWS + WIDTH)

ASSEMBLED: dict[str, tuple[tuple[str, ...], Callable[[Staged], Tensor]]] = {
    "as it is": ((), lambda s: assembled(s, ROWS, masks(ANCHOR), AT, windowed(WINDOW))),
    "a window per stage": (
        ("attention.window=3,none,7",),
        lambda s: assembled(s, ROWS, masks(ANCHOR), AT, windowed(3, None, 7)),
    ),
    "a rule per stage": (
        ("attention.window_rule[2]=query",),
        lambda s: assembled(
            s,
            ROWS,
            masks(ANCHOR),
            AT,
            lambda stage, slot, row: row >= ROWS - WINDOW + (slot + 1 if stage == 2 else 0),
        ),
    ),
    "no anchor": (
        ("block.anchor_fill=mask",),
        lambda s: assembled(s, ROWS, masks(None), AT, windowed(WINDOW)),
    ),
    "a position late": (
        ("block.position_offset=1",),
        lambda s: assembled(s, ROWS, masks(ANCHOR), range(ROWS + 1, ROWS + 6), windowed(WINDOW)),
    ),
    "a position early": (
        ("block.position_offset=-1",),
        lambda s: assembled(s, ROWS, masks(ANCHOR), range(ROWS - 1, ROWS + 4), windowed(WINDOW)),
    ),
    "no norm of features": (
        ("fusion.output_norm=false",),
        lambda s: assembled(s, ROWS, masks(ANCHOR), AT, windowed(WINDOW), normed=False),
    ),
    "input norm on context": (
        ("fusion.input_norm_on_context=true",),
        lambda s: assembled(s, ROWS, masks(ANCHOR), AT, windowed(WINDOW), own_norm=True),
    ),
}


@pytest.mark.parametrize("name", ASSEMBLED)
def test_assembled(staged: Staged, base: Tensor, name: str) -> None:
    overrides, wanted = ASSEMBLED[name]
    found = drafted(staged.drafter(overrides)[1], ROWS)
    close(found["hidden"], wanted(staged))
    if overrides:
        changes(base, found)


def test_context_through_the_anchor(staged: Staged) -> None:
    """The anchor's own row counts as context, one row more than the window."""
    _, drafter = staged.drafter(("context.end=through_anchor",))
    assert drafter.needs_anchor_features
    anchor = ROWS - 1
    hidden = assembled(
        staged,
        ROWS,
        masks(int(TOKENS[anchor])),
        range(anchor, anchor + WIDTH),
        windowed(WINDOW, anchor=anchor),
    )
    close(drafted(drafter, ROWS, last=True)["hidden"], hidden)


def test_first_slot_unused(staged: Staged) -> None:
    """One row more than drafts: slot j predicts anchor + j, what slot 0 says is dropped."""
    contract, drafter = staged.drafter(("block.first_slot=unused",))
    assert (contract["block.width"], contract["block.proposals"]) == (6, 5)
    wanted: Drafted = staged.wanted(ROWS, width=6)
    tokens, logits = chain(wanted.base_logits[1:], staged.weights, ANCHOR)
    found = drafted(drafter, ROWS)
    close(found["logits"], logits)
    close(found["hidden"], wanted.hidden_pre_norm)
    assert found["tokens"].tolist() == tokens.tolist()


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "override",
    [
        "taps.state=residual",
        "taps.state[1]=layer_input",
        "taps.basis=rotated",
        "fusion.fc=false",
        "fusion.tap_norm=true",
        "fusion.concat_norm=true",
        "attention.gate=softplus",
        "attention.value_norm[0]=false",
        "attention.kv_shared=false",
        "rope.positions=mrope",
        "rope.layout=half,half,interleaved",
        "block.position_offset=5000",
        "embedding.source=own",
        "head.source=own",
        "head.vocabulary_map=offset",
        "head.vocabulary=60",
        "markov.kind=none",  # with a confidence head that reads it
        "stages.layers=7,8,9",
        "stages.layers[0]=5",
        "stages.collapse=last_mix",
        "stages.query_head_norm=false",
        "stages.scoring=softmax",
        "stages.normalised_weights=false",
        "stages.experts_per_token=8",
        "stages.output_groups=12",
        "backbone.kv_heads=2",
        "backbone.activation=gelu",
        "backbone.attention_bias=true",
        "backbone.qk_norm=false",
    ],
)
def test_values_that_are_refused(staged: Staged, override: str) -> None:
    """What the stages cannot honour is named; nothing is ignored."""
    named = re.escape(override.split("=")[0].split("[")[0])
    with pytest.raises(InputError, match=f"{named}|wo_a|markov_w2") as error:
        staged.drafter((override,))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["gated", "rnn"])
def test_other_markov_heads_are_refused(kind: str, tmp_path: Path) -> None:
    """Even with tensors for them: which hidden state they would read is nobody's convention."""
    pair = write_stages(tmp_path)
    hidden, rank = CONFIG["hidden_size"], CONFIG["dspark_markov_rank"]
    name = {"gated": "gate_proj", "rnn": "joint_proj"}[kind]
    rows, columns = {"gated": (rank, hidden + rank), "rnn": (3 * rank, hidden + 2 * rank)}[kind]
    extra = {"weight": torch.randn(rows, columns), "bias": torch.randn(rows)}
    more = {f"mtp.2.markov_head.{name}.{part}": value for part, value in extra.items()}
    save_file({**pair.weights, **more}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=f"markov.kind={kind}: no stages have such a head"):
        pair.drafter((f"markov.kind={kind}",))


@pytest.mark.parametrize(
    ("override", "missing"),
    [
        ("stages.streams=2", "hc_attn_fn: found shape [24, 160], expected [8, 80]"),
        ("stages.experts=8", "ffn.gate.weight: found shape [7, 40], expected [8, 40]"),
        ("stages.shared_experts=2", "shared_experts.w1.weight: found shape [20, 40], expected [40, 40]"),
        ("stages.query_rank=7", "wq_a.weight: found shape [20, 40], expected [7, 40]"),
        ("stages.output_rank=7", "wo_a.weight: found shape [18, 32], expected [21, 32]"),
        ("stages.output_groups=2", "wo_a.weight: found shape [18, 32], expected [any, 48]"),
        ("confidence.bias=true", "no tensor mtp.2.confidence_head.proj.bias"),
        ("backbone.layers=2", "no tensor mtp.1.norm.weight"),
    ],
)
def test_sizes_that_the_tensors_contradict(staged: Staged, override: str, missing: str) -> None:
    with pytest.raises(InputError, match=re.escape(missing)) as error:
        staged.drafter((override,))
    assert "\n" not in str(error.value)
