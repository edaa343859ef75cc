"""Chain drafters against a plain second implementation (`reference_chain`), axis by axis.

The reference is first held against goldens of DeepSpec's and speculators' own code. Contracts then come from
tiny random checkpoints plus overrides, so that the way from an axis's value to the arithmetic is covered.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_chain import reference_chain, target_id
from safetensors.torch import load_file, save_file
from torch import Tensor

from conftest import GOLDENS
from truedraft import Contract, resolve
from truedraft.contract import AXES, InputError
from truedraft.decode import Proposal, Round
from truedraft.models import ChainDrafter
from truedraft.models.chain import DEFAULT_PROPOSALS, ChainCache

GOLDEN_TOLERANCE = 2e-4
TOLERANCE = 5e-5
CHANGE = 1e-3
"""Smallest difference that counts as a change: far above `TOLERANCE`."""

HIDDEN, VOCABULARY, REDUCED, TAPS, HEAD_DIM, ROWS, STEPS = 32, 64, 24, 3, 8, 11, 4


# ------------------------------------------------------------------------------ the reference by itself


def golden_axes(config: Mapping[str, Any], mapped: bool) -> dict[str, Any]:
    """Axes of the three golden drafters, spelt out by hand from their configs and descriptions."""
    decoder = config.get("transformer_layer_config", config)
    layers = decoder["num_hidden_layers"]
    per_layer = {
        "attention.window": None,
        "attention.window_rule": "anchor",
        "attention.scale": decoder["head_dim"] ** -0.5,
        "attention.sinks": False,
        "attention.gate": "none",
        "attention.value_norm": False,
        "attention.kv_shared": False,
        "rope.theta": decoder["rope_parameters"]["rope_theta"],
        "rope.rotary_dims": decoder["head_dim"],
        "rope.placement": "first",
        "rope.layout": "half",
        "rope.scaling": None,
        "rope.attention_factor": 1.0,
        "rope.positions": "plain",
    }
    return {
        **{name: (value,) * layers for name, value in per_layer.items()},
        "fusion.tap_norm": False,
        "fusion.concat_norm": False,
        "fusion.fc": True,
        "fusion.output_norm": False,
        "chain.token": "next",
        "chain.position_offset": 1 if "transformer_layer_config" in config else 0,
        "chain.norm_before_residual": config.get("norm_before_residual", False),
        "chain.feedback": "residual",
        "embedding.source": "own",
        "embedding.scale": 1.0,
        "head.source": "own",
        "head.vocabulary_map": "offset" if mapped else "none",
        "head.softcap": None,
        "head.multiplier": 1.0,
        "backbone.layers": layers,
        "backbone.heads": decoder["num_attention_heads"],
        "backbone.kv_heads": decoder["num_key_value_heads"],
        "backbone.head_dim": decoder["head_dim"],
        "backbone.norm_eps": decoder["rms_norm_eps"],
        "backbone.activation": "silu",
        "backbone.attention_bias": False,
        "backbone.qk_norm": decoder["model_type"] == "qwen3",
    }


def golden(case: str) -> tuple[Callable[..., dict[str, Tensor]], dict[str, Tensor], dict[str, Any]]:
    """The reference for a case's drafter, called with taps, text and steps; the tensors; what is expected."""
    directory = GOLDENS / case
    weights = load_file(directory / "draft/model.safetensors")
    axes = golden_axes(json.loads((directory / "draft/config.json").read_text()), "d2t" in weights)
    unused = torch.zeros(0)  # the drafters have tables of their own

    def run(taps: Tensor, text: Tensor, steps: int, **options: Any) -> dict[str, Tensor]:
        return reference_chain(axes, weights, unused, unused, taps, text.tolist(), steps, **options)

    return run, load_file(directory / "io.safetensors"), json.loads((directory / "expect.json").read_text())


def test_reference_equals_deepspec():
    run, io, expect = golden("eagle3_deepspec")
    for r, anchor in enumerate(expect["anchor_positions"]):
        out = run(io["all_features"][0][:anchor], io["sequence"][0], len(expect["drafts"][r]))
        for k in range(len(out["hidden"])):
            close(out["hidden"][k], io[f"round{r}.step{k}.hidden"][0, 0], GOLDEN_TOLERANCE)
            close(out["logits"][k], io[f"round{r}.step{k}.logits"][0, 0], GOLDEN_TOLERANCE)
        assert out["tokens"].tolist() == expect["drafts"][r]


@pytest.mark.parametrize("case", ["eagle3_speculators_nbr_false", "eagle3_speculators_nbr_true"])
def test_reference_equals_speculators(case):
    """Autoregressive chains, and teacher-forced ones, whose first step shows every context row."""
    run, io, expect = golden(case)
    taps, text = io["hidden_states"][0], io["input_ids"][0]
    for row, entry in expect["autoregressive"].items():
        out = run(taps[: int(row) + 1], text, len(entry["drafted"]))
        for k in range(len(out["hidden"])):
            close(out["hidden"][k], io[f"ar{row}.step{k}.hidden"], GOLDEN_TOLERANCE)
            close(out["logits"][k], io[f"ar{row}.step{k}.logits"], GOLDEN_TOLERANCE)
        assert out["tokens"].tolist() == entry["drafted"]
    for row in (0, 1, 17, 38):
        out = run(taps[: row + 1], text, 4, forced=text[row + 2 :].tolist())
        close(out["rows"], io["ttt0.hidden"][0, : row + 1], GOLDEN_TOLERANCE)
        for k in range(4):
            close(out["hidden"][k], io[f"ttt{k}.hidden"][0, row], GOLDEN_TOLERANCE)
            close(out["logits"][k], io[f"ttt{k}.logits"][0, row], GOLDEN_TOLERANCE)
            assert int(out["ids"][k]) == expect["ttt_argmax_draft_vocab"][k][row]


# ------------------------------------------------------------------------------------- tiny checkpoints

TARGET = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 6,
    "hidden_size": HIDDEN,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "eos_token_id": 0,
    "tie_word_embeddings": False,
}

DECODER = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "hidden_size": HIDDEN,
    "intermediate_size": 20,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 5,
    "use_sliding_window": True,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}

SPECULATORS = {
    "architectures": ["Eagle3DraftModel"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": REDUCED,
    "eagle_aux_hidden_state_layer_ids": [1, 3, 5],
    "fc_norm": False,
    "norm_before_fc": False,
    "norm_before_residual": False,
    "norm_output": False,
    "speculators_config": {
        "algorithm": "eagle3",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": STEPS}],
    },
    "transformer_layer_config": DECODER,
}

DEEPSPEC = {
    **DECODER,
    "architectures": ["Qwen3Eagle3Model"],
    "num_hidden_layers": 1,
    "layer_types": ["full_attention"],
    "sliding_window": None,
    "use_sliding_window": False,
    "target_layer_ids": [0, 2, 4],
    "ttt_length": STEPS,
}


def speculators(options: Mapping[str, Any] | None = None, **decoder: Any) -> dict[str, Any]:
    return {**SPECULATORS, **(options or {}), "transformer_layer_config": {**DECODER, **decoder}}


def layers(*kinds: str) -> dict[str, Any]:
    return {"num_hidden_layers": len(kinds), "layer_types": [f"{kind}_attention" for kind in kinds]}


VARIANTS: dict[str, dict[str, Any]] = {
    "speculators": SPECULATORS,
    "stated residual": speculators({"norm_before_residual": True}),
    "stated feedback": speculators({"norm_output": True}),
    "tap norms": speculators({"fc_norm": True}),
    "concat norm": speculators({"norm_before_fc": True}),
    "whole vocabulary": speculators({"draft_vocab_size": VOCABULARY}),
    "other vocabulary": speculators({"draft_vocab_size": REDUCED - 1}),
    "llama": speculators(model_type="llama"),
    "biases": speculators(attention_bias=True),
    "one layer": speculators(**layers("sliding")),
    "three layers": speculators(**layers("sliding", "full", "full")),
    "1 kv head": speculators(num_key_value_heads=1),
    "4 kv heads": speculators(num_key_value_heads=4),
    "narrow": speculators(hidden_size=24),
    "deepspec": DEEPSPEC,  # its tensors hold the norms of every kind of fusion, and a gate
}


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Tensors of a draft checkpoint, with tables of its own (unread unless the contract says own)."""
    decoder = config.get("transformer_layer_config", config)
    heads, kv_heads = decoder["num_attention_heads"], decoder["num_key_value_heads"]
    query, key, inner = heads * HEAD_DIM, kv_heads * HEAD_DIM, decoder["intermediate_size"]
    hidden, vocabulary = decoder["hidden_size"], config.get("draft_vocab_size", VOCABULARY)
    out: dict[str, tuple[int, ...]] = {
        "fc.weight": (hidden, TAPS * HIDDEN),
        "norm.weight": (hidden,),
        "embed_tokens.weight": (VOCABULARY, hidden),
        "lm_head.weight": (vocabulary, hidden),
        "layers.0.hidden_norm.weight": (hidden,),
    }
    if vocabulary < VOCABULARY:
        out["d2t"] = (vocabulary,)
    if config.get("fc_norm", True):
        out |= {f"fc_norm.{i}.weight": (HIDDEN,) for i in range(TAPS)}
    if config.get("norm_before_fc", True):
        out["input_norm.weight"] = (TAPS * HIDDEN,)
    for i in range(decoder["num_hidden_layers"]):
        inputs = hidden if i else 2 * hidden
        layer: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,),
            "post_attention_layernorm.weight": (hidden,),
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
            "self_attn.o_proj.weight": (hidden, query),
        }
        rows = {"q": query, "k": key, "v": key}
        layer |= {f"self_attn.{which}_proj.weight": (n, inputs) for which, n in rows.items()}
        if decoder["attention_bias"]:
            biases = {**rows, "o": hidden}
            layer |= {f"self_attn.{which}_proj.bias": (n,) for which, n in biases.items()}
        if config is DEEPSPEC:
            layer["self_attn.g_proj.weight"] = (heads, hidden)
        if decoder["model_type"] == "qwen3":
            layer |= {f"self_attn.{which}_norm.weight": (HEAD_DIM,) for which in "qk"}
        out |= {f"layers.{i}.{part}": shape for part, shape in layer.items()}
    return out


def random_tensor(name: str, shape: tuple[int, ...]) -> Tensor:
    """The same tensor for the same name and shape in every variant, so that variants differ in one thing."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {shape}".encode()))
    if name == "d2t":  # offsets, and target ids where they are read as absolute
        ids = torch.randperm(VOCABULARY, generator=generator)[: shape[0]].sort().values
        return ids - torch.arange(shape[0])
    if "norm" in name:
        return 0.5 + torch.rand(shape, generator=generator)
    values = torch.randn(shape, generator=generator)
    if "embed_tokens" in name:
        return values
    if name.endswith(".bias"):
        return values / 2
    return values * ((2 if "lm_head" in name else 1) / math.sqrt(shape[-1]))


class Watched(ChainDrafter):
    """A drafter that notes the hidden states [B, H] and the logits [B, draft ids] of every draft."""

    notes: list[tuple[Tensor, Tensor]] | None = None

    def logits(self, hidden: Tensor) -> Tensor:
        logits = super().logits(hidden)
        if self.notes is not None:
            self.notes.append((hidden, logits))
        return logits

    @torch.inference_mode()
    def watched(
        self, turns: Sequence[Round], cache_: ChainCache, *options: Any
    ) -> tuple[Proposal, Tensor, Tensor]:
        """The proposal for some turns, hidden states [B, steps, H] and logits [B, steps, draft ids]."""
        self.notes = []
        proposal = self.propose(turns, cache_, *options)
        hidden, logits = (torch.stack(parts, 1) for parts in zip(*self.notes, strict=True))
        return proposal, hidden, logits


@dataclass(frozen=True)
class Tiny:
    """One tiny pair: directories to resolve, tables of the target, and features of a made-up sequence."""

    target: Path
    draft: Path
    embedding: Tensor
    head: Tensor
    taps: Tensor
    tokens: Tensor

    def drafter(
        self, overrides: Sequence[str] = (), proposals: int | None = None
    ) -> tuple[Contract, dict[str, Tensor], Watched]:
        resolution = resolve(self.target, self.draft, overrides)
        assert not resolution.contract.unsettled
        stored = load_file(self.draft / "model.safetensors")
        weights = {name: stored[name] for name in resolution.tensors}
        with torch.inference_mode():
            drafter = Watched(resolution.contract, weights, self.embedding, self.head, proposals)
        return resolution.contract, weights, drafter

    def round(self, sequence: int, first: int, rows: int, shift: int = 0) -> Round:
        """A turn with rows first … rows - 1 of the sequence, rotated by `shift`."""
        taps, tokens = self.taps.roll(shift, 0), self.tokens.roll(shift, 0)
        following = tokens[first + 1 : rows + 1]
        return Round(sequence, taps[first:rows], tokens[first:rows], following, first, tokens[rows], rows)

    def wanted(
        self,
        contract: Contract,
        weights: Mapping[str, Tensor],
        rows: int,
        steps: int,
        shift: int = 0,
        **o: Any,
    ) -> dict[str, Tensor]:
        """The reference's answer for the same turn."""
        axes = {name: contract.get(name) for name in AXES}
        taps, text = self.taps.roll(shift, 0)[:rows], self.tokens.roll(shift, 0).tolist()
        return reference_chain(axes, weights, self.embedding, self.head, taps, text, steps, **o)


Make = Callable[[str], Tiny]


def tiny_pairs(root: Path) -> Make:
    """A function that writes a variant's checkpoints below `root` when first asked for it."""

    @cache
    def make(name: str) -> Tiny:
        target, draft = root / name / "target", root / name / "draft"
        tables = {
            key: random_tensor(f"target {key}", (VOCABULARY, HIDDEN))
            for key in ("model.embed_tokens.weight", "lm_head.weight")
        }
        config = VARIANTS[name]
        tensors = {key: random_tensor(key, shape) for key, shape in shapes(config).items()}
        for directory, configuration, weights in ((target, TARGET, tables), (draft, config, tensors)):
            directory.mkdir(parents=True)
            (directory / "config.json").write_text(json.dumps(configuration))
            save_file(weights, directory / "model.safetensors")
        generator = torch.Generator().manual_seed(5)
        return Tiny(
            target,
            draft,
            tables["model.embed_tokens.weight"],
            tables["lm_head.weight"],
            torch.randn(64, TAPS * HIDDEN, generator=generator),
            torch.randint(2, VOCABULARY, (65,), generator=generator),
        )

    return make


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return tiny_pairs(tmp_path_factory.mktemp("tiny"))


# ---------------------------------------------------------------------------- product against reference

Result = dict[str, Tensor]


def run(
    pair: Tiny, overrides: Sequence[str], cuts: Sequence[int] = (ROWS,), holes: range = range(0)
) -> Result:
    """Feed the context up to each of `cuts`, draft each time, and hold every round against the reference.

    `holes`: rows that are invalidated after the first cut. Returns the last round's result.
    """
    contract, weights, drafter = pair.drafter(overrides)
    steps = drafter.proposals
    assert steps == contract["chain.steps"]
    cache_ = drafter.new_cache()
    sequence, fed, found = cache_.open(), 0, {}
    for rows in cuts:
        turn = pair.round(sequence, fed, rows)
        if holes and fed == 0:
            with torch.inference_mode():  # the buffers are inference tensors
                drafter.extend([turn], cache_)
                cache_.invalidate(sequence, slice(holes.start, holes.stop))
            turn = pair.round(sequence, rows, rows)
        proposal, hidden, logits = drafter.watched([turn], cache_)
        found = {"hidden": hidden[0], "logits": logits[0], "tokens": proposal.tokens[0]}
        assert proposal.lengths == (steps,)
        assert cache_.length(sequence) == rows
        forced = proposal.tokens[0].tolist()
        wanted = pair.wanted(
            contract, weights, rows, steps, forced=forced, unseen=tuple(holes), since=cuts[0]
        )
        same(found, wanted, contract, weights)
        with torch.inference_mode():
            close(cache_.recent[sequence][-1], wanted["rows"][-1], TOLERANCE)
        fed = rows
    return found


def same(found: Result, wanted: Result, contract: Contract, weights: Mapping[str, Tensor]) -> None:
    """Equal hidden states and logits, and drafts that the logits explain (two best ones may be near)."""
    for name in ("hidden", "logits"):
        close(found[name], wanted[name], TOLERANCE)
    for chosen, token, logits in zip(
        found["logits"].argmax(-1), found["tokens"], wanted["logits"], strict=True
    ):
        assert float(logits[chosen]) > float(logits.max()) - 2 * TOLERANCE * (1 + float(logits.abs().max()))
        assert (
            target_id({"head.vocabulary_map": contract["head.vocabulary_map"]}, weights, int(chosen)) == token
        )


def close(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found, wanted, atol=tolerance, rtol=tolerance, check_dtype=False)


def difference(left: Result, right: Result) -> float:
    """Largest difference over hidden states and logits; infinite between other vocabularies or drafts."""
    out = 0.0
    for name in ("hidden", "logits"):
        a, b = left[name], right[name]
        count = min(len(a), len(b))
        if a.shape[1] != b.shape[1]:
            return math.inf
        out = max(out, float((a[:count] - b[:count]).abs().max()))
    return out


YARN = "rope.scaling=yarn:factor=4:original_max_position_embeddings=32"
LLAMA3 = (
    "rope.scaling=llama3:factor=8:low_freq_factor=1:high_freq_factor=4:original_max_position_embeddings=32"
)
ANCHOR, QUERY = "attention.window_rule=anchor", "attention.window_rule=query"

# (variant, overrides of the base, overrides of the case)
SINGLE: list[tuple[str, tuple[str, ...], str]] = [
    (variant, base, case)
    for variant, base, cases in (
        (
            "speculators",
            (),
            (
                "chain.token=same",
                "chain.norm_before_residual=true",
                "chain.feedback=post_norm",
                "attention.window=none",
                "attention.window[0]=1",
                "attention.window[0]=4",
                "attention.window[0]=6",
                "attention.window[1]=3",
                "attention.window[1]=10",
                "attention.window_rule=query",
                "attention.scale=0.7",
                "attention.scale[1]=0.1",
                "rope.theta=100",
                "rope.theta[0]=1000000",
                "rope.theta=500,5000000",
                "rope.rotary_dims=2",
                "rope.rotary_dims=4",
                "rope.layout=interleaved",
                "rope.scaling=linear:factor=3",
                "rope.scaling[1]=linear:factor=0.5",
                YARN,
                f"{YARN}:truncate=false",
                f"{YARN}:mscale=2:mscale_all_dim=0.5",
                LLAMA3,
                LLAMA3.replace("=", "[0]=", 1),
                "rope.attention_factor=0.8",
                "rope.attention_factor[0]=1.4",
                "embedding.source=target",
                "embedding.scale=0.001",  # only epsilon keeps a norm from undoing it
                "head.softcap=2",
                "head.multiplier=0.3",
                "backbone.activation=gelu",
                "backbone.activation=gelu_tanh",
                "backbone.norm_eps=0.1",
            ),
        ),
        # windows around the chain's own rows: 3 is narrower than the chain
        ("speculators", ("attention.window=3",), (QUERY, "attention.window_rule[1]=query")),
        ("speculators", ("attention.window=3", QUERY), ("attention.window=2", "attention.window=4")),
        ("speculators", ("attention.window=1",), (QUERY, "attention.window[1]=2")),
        ("speculators", ("attention.window=7", QUERY), ("attention.window=8", "attention.window=6")),
        ("speculators", ("attention.window=7", ANCHOR), ("attention.window=8", "attention.window=6")),
        ("speculators", ("chain.token=same",), ("chain.feedback=post_norm", QUERY)),
        ("speculators", ("chain.feedback=post_norm",), ("chain.norm_before_residual=true",)),
        ("speculators", ("rope.rotary_dims=4",), ("rope.placement=last", "rope.layout=interleaved", YARN)),
        ("speculators", ("rope.placement=last", "rope.rotary_dims=6"), ("rope.layout=interleaved",)),
        ("speculators", (YARN,), ("rope.attention_factor=1", "rope.theta=100")),
        ("speculators", ("head.softcap=2",), ("head.multiplier=2", "head.softcap=4")),
        ("speculators", ("backbone.norm_eps=0.1",), ("embedding.scale=0.3", "embedding.scale=5.5")),
        ("whole vocabulary", (), ("head.source=target", "head.softcap=1.5", "embedding.source=target")),
        (
            "deepspec",
            (),
            (
                "fusion.tap_norm=true",
                "fusion.concat_norm=true",
                "chain.token=same",
                "chain.norm_before_residual=true",
                "chain.feedback=post_norm",
                "attention.window=4",
                "embedding.source=target",
                "head.source=target",
            ),
        ),
        ("deepspec", ("fusion.tap_norm=true",), ("fusion.concat_norm=true",)),
        ("deepspec", ("fusion.concat_norm=true",), ("fusion.tap_norm=true",)),
        ("deepspec", ("attention.window=4", QUERY), ("attention.window=5", ANCHOR)),
    )
    for case in cases
]


def _label(case: tuple[str, tuple[str, ...], str]) -> str:
    variant, base, change = case
    return " ".join([variant, *base, "|", change])


@pytest.mark.parametrize("case", SINGLE, ids=_label)
def test_one_axis(tiny, case):
    """Base and changed contract each equal the reference, and the change shows."""
    variant, base, change = case
    found = run(tiny(variant), (*base, change))
    assert difference(base_result(tiny, variant, base), found) > CHANGE


_BASES: dict[tuple[str, tuple[str, ...]], Result] = {}


def base_result(make: Make, variant: str, base: tuple[str, ...]) -> Result:
    """The checked result of a base contract, computed once."""
    if (variant, base) not in _BASES:
        _BASES[variant, base] = run(make(variant), base)
    return _BASES[variant, base]


@pytest.mark.parametrize(
    ("left", "right"),
    [("speculators", name) for name in VARIANTS if name not in ("speculators", "deepspec", "narrow")]
    + [("tap norms", "concat norm"), ("1 kv head", "4 kv heads")],
)
def test_one_axis_that_needs_another_checkpoint(tiny, left, right):
    """Axes that decide which tensors there are; variants share every tensor of the same name and shape."""
    assert difference(base_result(tiny, left, ()), base_result(tiny, right, ())) > CHANGE


def test_the_two_gelus_differ(tiny):
    left, right = (
        base_result(tiny, "speculators", (f"backbone.activation={kind}",)) for kind in ("gelu", "gelu_tanh")
    )
    assert difference(left, right) > 3 * TOLERANCE


def test_a_drafter_narrower_than_the_target(tiny):
    assert run(tiny("narrow"), ())["hidden"].shape == (STEPS, 24)


@pytest.mark.parametrize("kind", ["offset", "absolute", "none"])
def test_vocabulary_maps(tiny, kind):
    """The first draft's logits are the same under every reading; its token and all after it are not."""
    base = base_result(tiny, "speculators", ())
    other = run(tiny("speculators"), (f"head.vocabulary_map={kind}",))
    assert torch.equal(base["logits"][0], other["logits"][0])
    first = int(base["logits"][0].argmax())
    d2t = load_file(tiny("speculators").draft / "model.safetensors")["d2t"]
    wanted = {"offset": first + int(d2t[first]), "absolute": int(d2t[first]), "none": first}
    assert len(set(wanted.values())) == 3
    assert int(other["tokens"][0]) == wanted[kind]
    assert (difference(base, other) > CHANGE) is (kind != "offset")


@pytest.mark.parametrize("offset", [-7, -1, 0, 1, 5, 4096])
@pytest.mark.parametrize("variant", ["speculators", "deepspec"])
def test_position_offset_changes_nothing(tiny, variant, offset):
    """Attention sees differences of positions only."""
    found = run(tiny(variant), (f"chain.position_offset={offset}",))
    # angles of positions in the thousands are rounded in fp32
    assert difference(base_result(tiny, variant, ()), found) < (1e-5 if offset < 4096 else 1e-3)


@pytest.mark.parametrize(
    ("base", "change", "why"),
    [
        ((), "taps.layers=4,0,2", "features arrive concatenated"),
        ((), "attention.window[1]=64", "wider than everything there is"),
        ((), "attention.window_rule[1]=query", "the layer has no window"),
        (("chain.steps=1",), "attention.window_rule=query", "no rows behind the first draft's"),
        (("chain.steps=1",), "chain.feedback=post_norm", "nothing is fed back"),
        (("rope.rotary_dims=2",), "rope.layout=interleaved", "one pair, the same in both layouts"),
        ((), "rope.placement=last", "the whole head is rotated"),
        ((), "rope.scaling=linear:factor=1", "a factor of one"),
        ((), "chain.steps=2", "the first two of the same chain"),
        ((), "chain.steps=7", "the same chain, longer"),
    ],
)
def test_changes_without_effect(tiny, base, change, why):
    """By construction nothing can change; the reason is in `why`."""
    found = run(tiny("speculators"), (*base, change))
    assert difference(base_result(tiny, "speculators", base), found) < 1e-5, why


def test_how_many_drafts(tiny):
    """What the caller says, else the checkpoint, else the default."""
    pair = tiny("speculators")
    assert pair.drafter()[2].proposals == STEPS
    assert pair.drafter((), 3)[2].proposals == 3
    assert pair.drafter(("chain.steps=9",))[2].proposals == 9
    assert DEFAULT_PROPOSALS == 5


@pytest.mark.parametrize(
    "override",
    [
        "taps.basis=rotated",
        "fusion.fc=false",
        "attention.sinks[0]=true",
        "attention.value_norm=true",
        "attention.kv_shared=true",
        "rope.positions=mrope",
        "rope.rotary_dims[1]=4",
        "rope.layout=half,interleaved",
        "rope.placement=first,last",
        "rope.rotary_dims=5",
        "chain.position_offset=4097",
    ],
)
def test_values_that_are_refused(tiny, override):
    """What the drafter cannot honour it names; nothing is ignored."""
    with pytest.raises(InputError, match=re.escape(override.split("[")[0].split("=")[0])):
        tiny("speculators").drafter((override,))


def test_gates_are_refused_with_and_without_weights(tiny):
    with pytest.raises(InputError, match=r"no tensor layers\.1\.self_attn\.g_proj\.weight"):
        tiny("speculators").drafter(("attention.gate[1]=softplus",))
    with pytest.raises(InputError, match=r"attention\.gate=softplus: the eagle3 drafter cannot run this"):
        tiny("deepspec").drafter(("attention.gate=softplus",))


@pytest.mark.parametrize("override", ["embedding.source=target", "head.source=target"])
def test_tables_of_another_width_are_not_borrowed(tiny, override):
    with pytest.raises(InputError, match="found hidden size 24, expected the target's 32"):
        tiny("narrow").drafter((override,))


def test_a_reduced_vocabulary_is_not_scored_by_the_targets_head(tiny):
    """That head scores all ids; the map has entries for a few of them."""
    with pytest.raises(InputError, match=r"head\.(source|vocabulary)"):
        tiny("speculators").drafter(("head.source=target",))


# -------------------------------------------------------------------------------------- context


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("variant", ["speculators", "deepspec"])
def test_context_lengths(tiny, variant, rows):
    run(tiny(variant), (), (rows,))


@pytest.mark.parametrize(
    "overrides", [(), ("chain.token=same", QUERY), ("attention.window=2,none",)], ids=str
)
def test_every_context_row(tiny, overrides):
    """Fed one by one, so that each is once the last one, whose output is kept."""
    run(tiny("three layers" if not overrides else "speculators"), overrides, range(1, 9))


HOLES: list[tuple[str, tuple[str, ...], range]] = [
    ("speculators", (), range(0, 3)),
    ("speculators", ("attention.window=4", QUERY), range(7, 9)),
    ("speculators", ("attention.window=4", ANCHOR), range(5, 11)),
    ("three layers", (), range(0, 11)),
    ("deepspec", ("chain.token=same",), range(4, 5)),
]


@pytest.mark.parametrize(("variant", "overrides", "holes"), HOLES, ids=str)
def test_invalid_rows_are_not_seen(tiny, variant, overrides, holes):
    """From the moment on that they are marked, by rows of the context and of chains."""
    whole = run(tiny(variant), overrides, (ROWS, ROWS + 1, ROWS + 3))
    torn = run(tiny(variant), overrides, (ROWS, ROWS + 1, ROWS + 3), holes)
    assert difference(whole, torn) > CHANGE


# ---------------------------------------------------------------------------------- random combinations

_FLAG = st.sampled_from(("true", "false"))
_SCALINGS = ("none", "linear:factor=2.5", YARN.partition("=")[2], LLAMA3.partition("=")[2])


@st.composite
def combinations(draw: Callable[[Any], Any]) -> tuple[str, tuple[str, ...]]:
    """A variant, and about half of all axes with random values on top of its own."""
    variant = draw(st.sampled_from([name for name in VARIANTS if name != "narrow"]))
    config = VARIANTS[variant]
    count = config.get("transformer_layer_config", config)["num_hidden_layers"]

    def each(*values: Any) -> Any:
        entries = st.lists(st.sampled_from(values), min_size=count, max_size=count)
        return entries.map(lambda found: ",".join(map(str, found)))

    options: dict[str, Any] = {
        "chain.token": st.sampled_from(("next", "same")),
        "chain.position_offset": st.integers(-2, 3),
        "chain.norm_before_residual": _FLAG,
        "chain.feedback": st.sampled_from(("residual", "post_norm")),
        "chain.steps": st.integers(1, 6),
        "attention.window": each("none", 1, 3, 6, 10),
        "attention.window_rule": each("query", "anchor"),
        "attention.scale": each(0.1, 0.35, 0.5),
        "rope.theta": each(100, 5000, 1000000),
        "rope.rotary_dims": st.sampled_from((2, 4, 6, 8)),
        "rope.placement": st.sampled_from(("first", "last")),
        "rope.layout": st.sampled_from(("half", "interleaved")),
        "rope.scaling": each(*_SCALINGS),
        "rope.attention_factor": each(0.8, 1, 1.3),
        "embedding.source": st.sampled_from(("target", "own")),
        "embedding.scale": st.sampled_from((0.3, 1, 5.5)),
        "head.softcap": st.sampled_from(("none", 4, 9)),
        "head.multiplier": st.sampled_from((0.5, 1, 2)),
        "backbone.activation": st.sampled_from(("silu", "gelu", "gelu_tanh")),
        "backbone.norm_eps": st.sampled_from((1e-6, 1e-2)),
    }
    if "d2t" in shapes(config):
        options["head.vocabulary_map"] = st.sampled_from(("offset", "absolute"))
    else:
        options["head.source"] = st.sampled_from(("target", "own"))
    if variant == "deepspec":
        options |= {"fusion.tap_norm": _FLAG, "fusion.concat_norm": _FLAG}
    chosen = [f"{axis}={draw(values)}" for axis, values in options.items() if draw(st.booleans())]
    return variant, tuple(chosen)


@settings(max_examples=40)
@given(combinations(), st.integers(1, 9), st.integers(0, 4), st.booleans())
def test_random_combinations(tiny, combination, rows, more, torn):
    """Many axes at once, with a context that grows and, sometimes, has unwritten rows."""
    variant, overrides = combination
    run(tiny(variant), overrides, (rows, rows + more), range(rows // 3, rows // 2) if torn else range(0))
