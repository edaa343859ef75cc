"""Block drafters against a plain second implementation (`reference_block`), axis by axis.

The reference is first held against goldens of z-lab's, DeepSpec's and speculators' own code. Contracts then
come from tiny random checkpoints plus overrides, so that the way from an axis's value to the arithmetic is
covered.
"""

from __future__ import annotations

import json
import math
import random
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from reference_block import inverse_frequencies, reference_round
from safetensors.torch import load_file, save_file
from torch import Tensor

from conftest import GOLDENS, greedy_read
from truedraft import Contract, resolve
from truedraft.contract import AXES, InputError
from truedraft.decode import KVCache, Round
from truedraft.models import BlockDrafter
from truedraft.models.load import load_tensors

GOLDEN_TOLERANCE = 2e-4
TOLERANCE = 3e-5
CHANGE = 1e-3
"""Smallest difference that counts as a change: far above `TOLERANCE`."""

HIDDEN, VOCABULARY, TAPS, HEAD_DIM, LAYERS, RANK, WIDTH, ROWS = 32, 64, 2, 16, 2, 6, 5, 13
WIDE, REDUCED = 48, 40
"""Hidden size of a target that is wider than its drafter; a draft vocabulary of some of the target's ids."""


# ------------------------------------------------------------------------------ the reference by itself


@pytest.mark.parametrize(
    "case", ["dflash_zlab_full", "dflash_zlab_swa_causal", "dspark_deepspec_vanilla", "dspark_deepspec_rnn"]
)
def test_reference_equals_the_goldens(case):
    """The reference is right by z-lab's and DeepSpec's own numbers; nothing of truedraft takes part."""
    directory = GOLDENS / case
    axes = golden_axes(json.loads((directory / "draft/config.json").read_text()))
    weights = load_file(directory / "draft/model.safetensors")
    target = load_file(directory / "target/model.safetensors")
    io = load_file(directory / "io.safetensors")
    expect = json.loads((directory / "expect.json").read_text())
    taps = torch.zeros(0, weights["fc.weight"].shape[1])
    for r, anchor in enumerate(expect["anchor_positions"]):
        taps = torch.cat([taps, io[f"round{r}.new_features"][0]])
        if r % 2 and r + 1 < len(expect["anchor_positions"]):
            continue  # every second round and the last: the loops are slow
        out = reference_round(
            axes,
            weights,
            target["model.embed_tokens.weight"],
            target["lm_head.weight"],
            taps,
            expect["anchor_tokens"][r],
            anchor,
        )
        logits = io.get(f"round{r}.corrected_logits", io.get(f"round{r}.logits"))[0]
        close(out["hidden"], io[f"round{r}.hidden"][0], GOLDEN_TOLERANCE)
        close(out["logits"], logits[-axes["block.proposals"] :], GOLDEN_TOLERANCE)
        assert out["tokens"].tolist() == expect["drafts"][r]
        if out["confidence_logits"] is not None:
            close(out["confidence_logits"], io[f"round{r}.confidence_logits"][0], GOLDEN_TOLERANCE)


@pytest.mark.parametrize("index", [0, 2, 4])
@pytest.mark.parametrize(
    "case",
    [
        "dflash_speculators_full",
        "dflash_speculators_swa_causal",
        "dspark_speculators_anchor_first",
        "dspark_speculators_bonus_anchor",
    ],
)
def test_reference_equals_the_goldens_of_speculators(case, index):
    """As above, by speculators' forward: reduced vocabularies, windows from the anchor, teacher forcing."""
    directory = GOLDENS / case
    axes = speculators_golden_axes(json.loads((directory / "draft/config.json").read_text()))
    weights = load_file(directory / "draft/model.safetensors")
    target = load_file(directory / "target/model.safetensors")
    io = load_file(directory / "io.safetensors")
    expect = json.loads((directory / "expect.json").read_text())
    tables = target["model.embed_tokens.weight"], target["lm_head.weight"]
    ids, anchor = io["input_ids"][0].tolist(), int(io["anchors"][index])
    first = axes["block.width"] - axes["block.proposals"]
    given = (axes, weights, *tables, io["hidden_states"][0, :anchor], ids[anchor], anchor)
    out = reference_round(*given)
    close(out["hidden"][first:], io["hidden"][index, first:], GOLDEN_TOLERANCE)
    if axes["markov.kind"] == "none":
        key = "argmax_base_target_vocab" if "d2t" in weights else "argmax_base_draft_vocab"
        close(out["logits"], io["base_logits"][index, first:], GOLDEN_TOLERANCE)
        assert out["tokens"].tolist() == expect[key][index]
        assert out["confidence_logits"] is None
        return
    close(out["logits"], io[f"chain{index}.logits"], GOLDEN_TOLERANCE)
    assert out["tokens"].tolist() == expect["greedy_chain_tokens"][index]
    out = reference_round(*given, forced=io["prev_token_ids"][index, first:].tolist())
    close(out["logits"], io["logits"][index, first:], GOLDEN_TOLERANCE)
    close(out["confidence_logits"], io["confidence_logits"][index, first:], GOLDEN_TOLERANCE)


def speculators_golden_axes(config: Mapping[str, Any]) -> dict[str, Any]:
    """Axes of speculators' golden drafters, again by hand: what differs from z-lab's."""
    decoder, width = config["transformer_layer_config"], config["block_size"]
    plain = {"dflash_config": {"mask_token_id": config["mask_token_id"], "block_size": width}}
    axes = golden_axes({**decoder, **plain, "architectures": ["DFlashDraftModel"]})
    assert axes["attention.causal"] == [window is not None for window in axes["attention.window"]]
    assert config["sliding_window_non_causal"] is False
    reduced = config["draft_vocab_size"] < decoder["vocab_size"]
    dspark = config["speculators_model_type"] == "dspark"
    return {
        **axes,
        "attention.window_rule": ["anchor"] * decoder["num_hidden_layers"],
        "block.proposals": width if config["sample_from_anchor"] else width - 1,
        "block.first_slot": "predicts_next" if config["sample_from_anchor"] else "unused",
        "head.source": "own" if reduced else "target",
        "head.vocabulary_map": "offset" if reduced else "none",
        "markov.kind": config["markov_head_type"] if dspark else "none",
        "markov.rank": config["markov_rank"] if dspark else None,
        "confidence.input": "post_norm" if dspark else "none",
    }


def golden_axes(config: Mapping[str, Any]) -> dict[str, Any]:
    """Axes of z-lab's and DeepSpec's golden drafters, by hand from their configs and descriptions."""
    layers, head_dim = config["num_hidden_layers"], config["head_dim"]
    dspark = config["architectures"] == ["Qwen3DSparkModel"]
    nested = config if dspark else config["dflash_config"]
    sliding = [kind == "sliding_attention" for kind in config["layer_types"]]
    width = config.get("block_size") or nested["block_size"]
    per_layer = {
        "attention.window_rule": "query",
        "attention.scale": head_dim**-0.5,
        "attention.sinks": False,
        "attention.gate": "none",
        "attention.value_norm": False,
        "attention.kv_shared": False,
        "rope.theta": config["rope_parameters"]["rope_theta"],
        "rope.rotary_dims": head_dim,
        "rope.placement": "first",
        "rope.layout": "half",
        "rope.scaling": None,
        "rope.attention_factor": 1.0,
        "rope.positions": "plain",
    }
    return {
        **{name: (value,) * layers for name, value in per_layer.items()},
        "attention.window": [config["sliding_window"] if slides else None for slides in sliding],
        "attention.causal": sliding,
        "fusion.tap_norm": False,
        "fusion.concat_norm": False,
        "fusion.fc": True,
        "fusion.output_norm": True,
        "fusion.input_norm_on_context": False,
        "block.width": width,
        "block.proposals": width if dspark else width - 1,
        "block.first_slot": "predicts_next" if dspark else "unused",
        "block.anchor_fill": "token",
        "block.mask_token_id": nested["mask_token_id"],
        "block.position_offset": 0,
        "context.end": "before_anchor",
        "embedding.source": "own" if dspark else "target",
        "embedding.scale": 1.0,
        "head.source": "own" if dspark else "target",
        "head.vocabulary_map": "none",
        "head.softcap": None,
        "head.multiplier": 1.0,
        "markov.kind": config.get("markov_head_type"),
        "markov.rank": config.get("markov_rank"),
        "markov.previous": "previous_token",
        "confidence.input": "post_norm" if dspark else "none",
        "confidence.bias": True,
        "confidence.with_markov": True,
        "backbone.layers": layers,
        "backbone.heads": config["num_attention_heads"],
        "backbone.kv_heads": config["num_key_value_heads"],
        "backbone.head_dim": head_dim,
        "backbone.norm_eps": config["rms_norm_eps"],
        "backbone.activation": "silu",
        "backbone.attention_bias": False,
        "backbone.qk_norm": True,
    }


@pytest.mark.parametrize(
    "scaling",
    [
        {"kind": "linear", "factor": 4.0},
        {"kind": "yarn", "factor": 8.0, "original_max_position_embeddings": 64},
        {
            "kind": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "truncate": False,
        },
        {
            "kind": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 256,
        },
    ],
    ids=lambda scaling: scaling["kind"],
)
def test_reference_frequencies_equal_transformers(scaling):
    from transformers import Qwen3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {key: value for key, value in scaling.items() if key != "kind"}
    config = Qwen3Config(
        head_dim=32,
        max_position_embeddings=32768,
        rope_parameters={"rope_type": scaling["kind"], "rope_theta": 1e4, **parameters},
    )
    wanted, _ = ROPE_INIT_FUNCTIONS[scaling["kind"]](config, torch.device("cpu"))
    found = torch.tensor(inverse_frequencies(1e4, 32, scaling))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)


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

ZLAB = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 7,
    "use_sliding_window": True,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "num_target_layers": 6,
    "dflash_config": {"mask_token_id": 1, "target_layer_ids": [1, 3], "block_size": WIDTH},
}

DEEPSPEC = {
    **{key: value for key, value in ZLAB.items() if key != "dflash_config"},
    "architectures": ["Qwen3DSparkModel"],
    "layer_types": ["full_attention"] * LAYERS,
    "sliding_window": None,
    "use_sliding_window": False,
    "block_size": WIDTH,
    "mask_token_id": 1,
    "target_layer_ids": [1, 3],
    "markov_rank": RANK,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}

LAGUNA = {
    **ZLAB,
    "architectures": ["DFlashLagunaForCausalLM"],
    "model_type": "laguna",
    "draft_vocab_size": VOCABULARY,
    "gating": "per-head",
}

SPECULATORS = {
    "architectures": ["DFlashDraftModel"],
    "speculators_model_type": "dflash",
    "speculators_version": "0.9.0",
    "aux_hidden_state_layer_ids": [2, 4],
    "block_size": WIDTH,
    "draft_vocab_size": REDUCED,
    "mask_token_id": 1,
    "sample_from_anchor": False,
    "sliding_window_non_causal": False,
    "target_hidden_size": None,
    "speculators_config": {
        "algorithm": "dflash",
        "default_proposal_method": "greedy",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": WIDTH - 1}],
    },
    "transformer_layer_config": {
        key: value
        for key, value in ZLAB.items()
        if key not in ("architectures", "num_target_layers", "dflash_config")
    },
}

SPECULATORS_DSPARK = {
    **SPECULATORS,
    "architectures": ["DSparkDraftModel"],
    "speculators_model_type": "dspark",
    "speculators_config": {**SPECULATORS["speculators_config"], "algorithm": "dspark"},
    "markov_rank": RANK,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}

VARIANTS: dict[str, dict[str, Any]] = {
    "zlab": ZLAB,
    "zlab-plain-qk": ZLAB,  # without q_norm and k_norm
    "zlab-gelu": {**ZLAB, "hidden_act": "gelu"},
    "zlab-gelu-tanh": {**ZLAB, "hidden_act": "gelu_pytorch_tanh"},
    "zlab-eps": {**ZLAB, "rms_norm_eps": 0.1},
    "zlab-1-kv-head": {**ZLAB, "num_key_value_heads": 1},
    "zlab-4-kv-heads": {**ZLAB, "num_key_value_heads": 4},
    "zlab-3-layers": {
        **ZLAB,
        "num_hidden_layers": 3,
        "layer_types": [*ZLAB["layer_types"], "full_attention"],
    },
    "deepspec": DEEPSPEC,
    "deepspec-gated": {**DEEPSPEC, "markov_head_type": "gated"},
    "deepspec-rnn": {**DEEPSPEC, "markov_head_type": "rnn"},
    "deepspec-no-markov": {**DEEPSPEC, "markov_rank": 0, "confidence_head_with_markov": False},
    "deepspec-confidence-alone": {**DEEPSPEC, "confidence_head_with_markov": False},
    "deepspec-no-confidence": {**DEEPSPEC, "enable_confidence_head": False},
    "deepspec-dflash": {**DEEPSPEC, "markov_rank": 0, "enable_confidence_head": False},
    "zlab-bias": {**ZLAB, "attention_bias": True},
    "laguna": LAGUNA,
    "laguna-bias": {**LAGUNA, "attention_bias": True},
    "laguna-fused": {**LAGUNA, "attention_bias": True},  # under Poolside's names
    "speculators": SPECULATORS,
    "speculators-wide": {**SPECULATORS, "target_hidden_size": WIDE},
    "speculators-whole": {**SPECULATORS, "draft_vocab_size": VOCABULARY},  # without d2t
    "speculators-permuted": {**SPECULATORS, "draft_vocab_size": VOCABULARY},
    "dspark": SPECULATORS_DSPARK,
    "dspark-gated": {**SPECULATORS_DSPARK, "markov_head_type": "gated"},
    "dspark-rnn": {**SPECULATORS_DSPARK, "markov_head_type": "rnn"},
    "dspark-permuted": {**SPECULATORS_DSPARK, "draft_vocab_size": VOCABULARY},
}

NORMS = ("laguna", "speculators", "dspark")
"""Variants (by prefix) whose files have norms of taps and gates, whether or not the contract reads them."""


def target_width(name: str) -> int:
    return WIDE if name == "speculators-wide" else HIDDEN


def shapes(name: str, config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Tensors of a draft checkpoint, always with tables of its own (unread unless the contract says own)."""
    decoder = config.get("transformer_layer_config", config)
    heads, kv_heads = decoder["num_attention_heads"], decoder["num_key_value_heads"]
    query, key, inner = heads * HEAD_DIM, kv_heads * HEAD_DIM, decoder["intermediate_size"]
    vocabulary, wide = config.get("draft_vocab_size", VOCABULARY), target_width(name)
    out: dict[str, tuple[int, ...]] = {
        "fc.weight": (HIDDEN, TAPS * wide),
        "hidden_norm.weight": (HIDDEN,),
        "norm.weight": (HIDDEN,),
        "embed_tokens.weight": (VOCABULARY, HIDDEN),
        "lm_head.weight": (vocabulary, HIDDEN),
    }
    if vocabulary < VOCABULARY or name.endswith("permuted"):
        out["d2t"] = (vocabulary,)
    if name.startswith(NORMS):
        out |= {f"fc_norm.{tap}.weight": (wide,) for tap in range(TAPS)}
        out["input_norm.weight"] = (TAPS * wide,)
    for i in range(decoder["num_hidden_layers"]):
        layer = {
            "input_layernorm.weight": (HIDDEN,),
            "post_attention_layernorm.weight": (HIDDEN,),
            "mlp.gate_proj.weight": (inner, HIDDEN),
            "mlp.up_proj.weight": (inner, HIDDEN),
            "mlp.down_proj.weight": (HIDDEN, inner),
            "self_attn.o_proj.weight": (HIDDEN, query),
        }
        rows = {"q": query, "k": key, "v": key}
        layer |= {f"self_attn.{which}_proj.weight": (n, HIDDEN) for which, n in rows.items()}
        if name != "zlab-plain-qk":
            layer |= {f"self_attn.{which}_norm.weight": (HEAD_DIM,) for which in "qk"}
        if decoder["attention_bias"]:
            layer |= {f"self_attn.{which}_proj.bias": (n,) for which, n in (rows | {"o": HIDDEN}).items()}
        if name.startswith(NORMS):
            layer["self_attn.g_proj.weight"] = (heads, HIDDEN)
        out |= {f"layers.{i}.{part}": shape for part, shape in layer.items()}
    rank = config.get("markov_rank", 0)
    if rank:
        ids = {"w1": VOCABULARY, "w2": vocabulary}
        out |= {f"markov_head.markov_{which}.weight": (n, rank) for which, n in ids.items()}
    if config.get("markov_head_type") == "gated":
        out |= {
            "markov_head.gate_proj.weight": (rank, HIDDEN + rank),
            "markov_head.gate_proj.bias": (rank,),
        }
    if config.get("markov_head_type") == "rnn":
        out |= {
            "markov_head.joint_proj.weight": (3 * rank, HIDDEN + 2 * rank),
            "markov_head.joint_proj.bias": (3 * rank,),
        }
    if config.get("enable_confidence_head"):
        extra = rank if config["confidence_head_with_markov"] else 0
        out |= {"confidence_head.proj.weight": (1, HIDDEN + extra), "confidence_head.proj.bias": (1,)}
    return out


def random_tensor(name: str, shape: tuple[int, ...]) -> Tensor:
    """The same tensor for the same name and shape in every variant, so that variants differ in one thing."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {shape}".encode()))
    if name == "d2t":  # of sorted ids, as trained, or of a permutation of all
        ids = torch.randperm(VOCABULARY, generator=generator)[: shape[0]]
        return (ids.sort().values if shape[0] < VOCABULARY else ids) - torch.arange(shape[0])
    if "norm" in name:
        return 0.5 + torch.rand(shape, generator=generator)
    values = torch.randn(shape, generator=generator)
    if name.endswith(("embed_tokens.weight", "markov_w1.weight")):
        return values
    if name.endswith(".bias"):
        return values / 2
    return values * ((2 if "lm_head" in name else 1) / math.sqrt(shape[-1]))


@dataclass(frozen=True)
class Tiny:
    """One tiny pair: directories to resolve, tables of the target, and features of a made-up sequence.

    `weights`: what the drafter's file holds, by canonical name.
    """

    target: Path
    draft: Path
    weights: dict[str, Tensor]
    embedding: Tensor
    head: Tensor
    taps: Tensor
    tokens: Tensor

    def drafter(self, overrides: Sequence[str] = ()) -> tuple[Contract, dict[str, Tensor], BlockDrafter]:
        resolution = resolve(self.target, self.draft, overrides)
        assert not resolution.contract.unsettled
        stored = load_tensors(resolution.tensors, dtype=torch.float32, device="cpu")
        with torch.inference_mode():
            drafter = BlockDrafter(resolution.contract, stored, self.embedding, self.head)
        return resolution.contract, {name: self.weights[name] for name in stored}, drafter

    def round(self, sequence: int, first: int, rows: int, last: bool) -> Round:
        """A turn with rows first … rows - 1. `last`: the last of them is the anchor's own."""
        anchor = rows - 1 if last else rows
        return Round(
            sequence,
            self.taps[first:rows],
            self.tokens[first:rows],
            self.tokens[first + 1 : rows + 1],
            first,
            self.tokens[anchor],
            anchor,
        )


Make = Callable[[str], Tiny]


def tiny_pairs(root: Path) -> Make:
    """A function that writes a variant's checkpoints below `root` when first asked for it."""

    @cache
    def make(name: str) -> Tiny:
        return write_pair(root / name, name)

    return make


def write_pair(root: Path, name: str, replaced: Mapping[str, Tensor] | None = None) -> Tiny:
    """A variant's checkpoints in `root`, with some of the drafter's tensors `replaced`."""
    target, draft, wide = root / "target", root / "draft", target_width(name)
    tables = {
        key: random_tensor(f"target {key}", (VOCABULARY, wide))
        for key in ("model.embed_tokens.weight", "lm_head.weight")
    }
    config = VARIANTS[name]
    tensors = {key: random_tensor(key, shape) for key, shape in shapes(name, config).items()}
    tensors |= replaced or {}
    stored = fused(tensors) if name == "laguna-fused" else tensors
    settings = {**TARGET, "hidden_size": wide}
    for directory, keys, weights in ((target, settings, tables), (draft, config, stored)):
        directory.mkdir(parents=True)
        (directory / "config.json").write_text(json.dumps(keys))
        save_file(weights, directory / "model.safetensors")
    generator = torch.Generator().manual_seed(3)
    return Tiny(
        target,
        draft,
        tensors,
        tables["model.embed_tokens.weight"],
        tables["lm_head.weight"],
        torch.randn(64, TAPS * wide, generator=generator),
        torch.randint(2, VOCABULARY, (65,), generator=generator),
    )


def fused(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights as vLLM's Laguna names and stacks them."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if match := re.fullmatch(r"(.+)\.(q|gate)_proj\.(weight|bias)", name):
            prefix, kind, suffix = match.groups()
            parts = ("q", "k", "v") if kind == "q" else ("gate", "up")
            stacked = torch.cat([tensors[f"{prefix}.{part}_proj.{suffix}"] for part in parts])
            out[f"model.{prefix}.{'qkv' if kind == 'q' else 'gate_up'}_proj.{suffix}"] = stacked
        elif not re.search(r"\.(k|v|up)_proj\.", name):
            out["model." + name.replace("fc_norm.", "aux_hidden_norms.")] = tensor
    return out


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return tiny_pairs(tmp_path_factory.mktemp("tiny"))


# ---------------------------------------------------------------------------- product against reference

Result = dict[str, Tensor | None]


def product_round(drafter: BlockDrafter, turn: Round, cache_: KVCache) -> Result:
    """What the drafter makes of one turn, under the reference's names; confidence after the sigmoid."""
    with torch.inference_mode():
        drafter.extend([turn], cache_)
        hidden = drafter.block([turn], cache_)
        tokens, logits, confidence = greedy_read(drafter, hidden, turn.anchor_token[None])
    return {
        "hidden": hidden[0],
        "logits": logits[0],
        "tokens": tokens[0],
        "confidence": None if confidence is None else confidence[0],
    }


def wanted_round(
    pair: Tiny, contract: Contract, weights: Mapping[str, Tensor], rows: int, valid: Tensor | None = None
) -> Result:
    """The reference's answer for the same turn."""
    last = contract["context.end"] == "through_anchor"
    anchor = rows - 1 if last else rows
    out = reference_round(
        {name: contract.get(name) for name in AXES},
        weights,
        pair.embedding,
        pair.head,
        pair.taps[:rows],
        int(pair.tokens[anchor]),
        anchor,
        valid,
    )
    confidence = out.pop("confidence_logits")
    return {**out, "confidence": None if confidence is None else torch.sigmoid(confidence)}


def run(
    pair: Tiny, overrides: Sequence[str], steps: Sequence[int] = (ROWS,), holes: slice | None = None
) -> Result:
    """Feed the context up to each of `steps`, draft each time, and hold every round against the reference.

    `holes`: rows that are invalidated after the first step. Returns the last round's result.
    """
    contract, weights, drafter = pair.drafter(overrides)
    last = contract["context.end"] == "through_anchor"
    assert drafter.needs_anchor_features is last
    assert drafter.proposals == contract["block.proposals"]
    cache_ = drafter.new_cache()
    sequence, fed, found = cache_.open(), 0, {}
    for rows in steps:
        found = product_round(drafter, pair.round(sequence, fed, rows, last), cache_)
        valid = None
        if holes is not None:
            if fed == 0:
                with torch.inference_mode():  # the buffers are inference tensors
                    cache_.invalidate(sequence, holes)
                turn = pair.round(sequence, rows, rows, last)
                found = product_round(drafter, turn, cache_)
            valid = torch.ones(rows, dtype=torch.bool)
            valid[holes] = False
        assert cache_.length(sequence) == rows
        same(found, wanted_round(pair, contract, weights, rows, valid))
        fed = rows
    return found


def same(found: Result, wanted: Result) -> None:
    for name in ("hidden", "logits", "confidence"):
        if wanted[name] is None:
            assert found[name] is None
        else:
            close(found[name], wanted[name], TOLERANCE)
    assert found["tokens"].tolist() == wanted["tokens"].tolist()


def close(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found, wanted, atol=tolerance, rtol=0, check_dtype=False)


def difference(left: Result, right: Result) -> float:
    """Largest difference over what both have: the common slots of hidden states, logits and confidence."""
    out = 0.0
    for name in ("hidden", "logits", "confidence"):
        a, b = left[name], right[name]
        if (a is None) != (b is None):
            return math.inf
        if a is not None and b is not None:
            count = min(len(a), len(b))
            out = max(out, float((a[:count] - b[:count]).abs().max()))
    return out


YARN = "rope.scaling=yarn:factor=4:original_max_position_embeddings=32"
LLAMA3 = (
    "rope.scaling=llama3:factor=8:low_freq_factor=1:high_freq_factor=4:original_max_position_embeddings=32"
)
BIDIRECTIONAL = "attention.causal=false"
PURE_SHIFT = ("block.width=5", "block.proposals=4")

# (variant, overrides of the base, overrides of the case)
SINGLE: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    ("zlab", base, (case,))
    for base, cases in (
        (
            (),
            (
                "fusion.output_norm=false",
                "fusion.input_norm_on_context=true",
                "block.width=3",
                "block.width=8",
                "block.proposals=1",
                "block.first_slot=predicts_next",
                "block.anchor_fill=mask",
                "block.mask_token_id=9",
                "block.mask_token_id=63",
                "block.position_offset=-1",
                "block.position_offset=1",
                "block.position_offset=5",
                "context.end=through_anchor",
                "attention.window=none",
                "attention.window=3",
                "attention.window[0]=1",
                "attention.window[0]=6",
                "attention.window[0]=8",
                "attention.window[1]=11",
                "attention.window[1]=13",
                "attention.window_rule=anchor",
                "attention.causal=true",
                "attention.causal=false",
                "attention.causal=false,true",
                "attention.scale=0.6",
                "attention.scale[1]=0.1",
                "rope.theta=100",
                "rope.theta[0]=1000000",
                "rope.theta=500,5000000",
                "rope.rotary_dims=2",
                "rope.rotary_dims=8",
                "rope.layout=interleaved",
                "rope.scaling=linear:factor=3",
                "rope.scaling[1]=linear:factor=0.5",
                YARN,
                f"{YARN}:beta_fast=3:beta_slow=0.25",
                f"{YARN}:truncate=false",
                f"{YARN}:beta_fast=1:beta_slow=1:truncate=false",
                f"{YARN}:mscale=2:mscale_all_dim=0.5",
                f"{YARN}:attention_factor=0.7",
                LLAMA3,
                LLAMA3.replace("=", "[0]=", 1),
                "rope.attention_factor=0.8",
                "rope.attention_factor[0]=1.4",
                "embedding.source=own",
                "embedding.scale=0.25",
                "embedding.scale=5.5",
                "head.source=own",
                "head.softcap=2",
                "head.softcap=0.5",
                "head.multiplier=0.3",
                "head.multiplier=4",
            ),
        ),
        # windows of a block whose slots see each other both ways; 3 and 4 are narrower than the block
        (
            (BIDIRECTIONAL,),
            ("attention.window[0]=3", "attention.window=4", "attention.window[0]=8", "attention.window=none"),
        ),
        ((BIDIRECTIONAL, "attention.window=3"), ("attention.window_rule=anchor", "attention.causal[0]=true")),
        (
            ("attention.window=6,9",),
            ("attention.window_rule=anchor", "attention.window_rule[1]=anchor", "context.end=through_anchor"),
        ),
        (
            ("attention.window=6", "attention.window_rule=anchor"),
            ("attention.window=5", "attention.window=7", "block.position_offset=2", BIDIRECTIONAL),
        ),
        # same window and causality in both layers, only the rule tells them apart
        (("attention.window=6", "attention.causal=true"), ("attention.window_rule[1]=anchor",)),
        (PURE_SHIFT, ("block.first_slot=predicts_next",)),
        (
            ("rope.rotary_dims=6",),
            ("rope.placement=last", "rope.layout=interleaved", YARN, LLAMA3),
        ),
        (("rope.placement=last", "rope.rotary_dims=10"), ("rope.layout=interleaved", "rope.rotary_dims=4")),
        ((YARN,), ("rope.attention_factor=1", "rope.attention_factor[1]=2", "rope.theta=100")),
        (("head.softcap=2",), ("head.multiplier=2", "head.softcap=4")),
        (("context.end=through_anchor",), ("block.position_offset=1", "attention.causal=true")),
    )
    for case in cases
] + [
    (variant, base, (case,))
    for variant, base, cases in (
        (
            "deepspec",
            (),
            (
                "block.first_slot=unused",
                "block.anchor_fill=mask",
                "block.width=3",
                "block.position_offset=1",
                "context.end=through_anchor",
                "attention.window=4",
                "attention.causal=true",
                "embedding.source=target",
                "embedding.scale=2",
                "head.source=target",
                "head.softcap=1.5",
                "head.multiplier=2.5",
                "markov.previous=anchor",
                "confidence.bias=false",
                "confidence.input=none",
            ),
        ),
        ("deepspec", PURE_SHIFT, ("block.first_slot=unused",)),
        ("deepspec", ("head.softcap=1.5",), ("head.softcap_order=after_sequence_head", "head.multiplier=3")),
        ("deepspec", ("block.first_slot=unused",), ("markov.previous=anchor", "head.softcap=2")),
        ("deepspec-gated", (), ("markov.previous=anchor", "block.first_slot=unused", "head.softcap=1.5")),
        ("deepspec-rnn", (), ("markov.previous=anchor", "block.first_slot=unused", "head.softcap=1.5")),
        ("deepspec-gated", ("head.softcap=1",), ("head.softcap_order=after_sequence_head",)),
        ("deepspec-rnn", ("head.softcap=1",), ("head.softcap_order=after_sequence_head",)),
        (
            "deepspec-confidence-alone",
            (),
            ("confidence.bias=false", "markov.previous=anchor", "markov.kind=none"),
        ),
        ("deepspec-no-markov", (), ("confidence.bias=false", "head.softcap=2")),
        ("deepspec-dflash", (), ("block.first_slot=unused", "attention.window=5", "head.softcap=2")),
        (
            "zlab-bias",
            (),
            ("backbone.attention_bias=false", "fusion.input_norm_on_context=true", "attention.window=3"),
        ),
        (
            "laguna",
            (),
            (
                "fusion.tap_norm=false",
                "fusion.concat_norm=true",
                "fusion.output_norm=false",
                "fusion.input_norm_on_context=false",
                "attention.gate=none",
                "attention.gate[0]=none",
                "attention.gate[1]=none",
                "head.source=own",
            ),
        ),
        ("laguna", ("fusion.tap_norm=false",), ("fusion.concat_norm=true",)),
        ("laguna", ("fusion.concat_norm=true",), ("fusion.tap_norm=false", "fusion.output_norm=false")),
        (
            "laguna-fused",
            (),
            (
                "backbone.attention_bias=false",
                "fusion.tap_norm=false",
                "attention.gate=none",
                "rope.theta=100",
            ),
        ),
        (
            "speculators",
            (),
            (
                "fusion.concat_norm=true",
                "fusion.tap_norm=true",
                "attention.gate=softplus",
                "attention.window=5",
                "attention.window_rule=query",
                "attention.window_rule[0]=query",
                "attention.causal=false",
                "attention.causal=true",
                "block.first_slot=predicts_next",
                "context.end=through_anchor",
                "embedding.source=target",
                "head.softcap=1.5",
                "head.multiplier=3",
            ),
        ),
        (
            "speculators-wide",
            (),
            ("fusion.tap_norm=true", "fusion.concat_norm=true", "fusion.output_norm=false"),
        ),
        ("speculators-whole", (), ("head.source=target",)),
        (
            "dspark",
            (),
            (
                "head.vocabulary_map=none",
                "head.vocabulary_map=absolute",
                "markov.previous=anchor",
                "confidence.bias=false",
                "block.first_slot=predicts_next",
                "attention.window_rule=query",
                "attention.gate=softplus",
                "head.softcap=1.5",
            ),
        ),
        ("dspark-gated", (), ("head.vocabulary_map=none", "head.vocabulary_map=absolute")),
        ("dspark-rnn", (), ("head.vocabulary_map=none", "head.vocabulary_map=absolute")),
        ("dspark-rnn", ("block.first_slot=predicts_next",), ("head.vocabulary_map=none",)),
        ("dspark-permuted", (), ("head.vocabulary_map=none", "head.source=target")),
    )
    for case in cases
]


def _label(case: tuple[str, tuple[str, ...], tuple[str, ...]]) -> str:
    variant, base, changes = case
    return " ".join([variant, *base, "|", *changes])


@pytest.mark.parametrize("case", SINGLE, ids=_label)
def test_one_axis(tiny, case):
    """Base and changed contract each equal the reference, and the change shows."""
    variant, base, changes = case
    assert difference(base_result(tiny, variant, base), run(tiny(variant), base + changes)) > CHANGE


_BASES: dict[tuple[str, tuple[str, ...]], Result] = {}


def base_result(make: Make, variant: str, base: tuple[str, ...]) -> Result:
    """The checked result of a base contract, computed once."""
    if (variant, base) not in _BASES:
        _BASES[variant, base] = run(make(variant), base)
    return _BASES[variant, base]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("zlab", "zlab-plain-qk"),
        ("zlab", "zlab-gelu"),
        ("zlab-gelu", "zlab-gelu-tanh"),
        ("zlab", "zlab-eps"),
        ("zlab", "zlab-1-kv-head"),
        ("zlab", "zlab-4-kv-heads"),
        ("zlab", "zlab-3-layers"),
        ("deepspec", "deepspec-gated"),
        ("deepspec", "deepspec-rnn"),
        ("deepspec-gated", "deepspec-rnn"),
        ("deepspec", "deepspec-no-markov"),
        ("deepspec", "deepspec-confidence-alone"),
        ("deepspec", "deepspec-no-confidence"),
        ("deepspec-no-markov", "deepspec-dflash"),
        ("zlab", "zlab-bias"),
        ("zlab", "laguna"),
        ("laguna", "laguna-bias"),
        ("dspark", "dspark-gated"),
        ("dspark-gated", "dspark-rnn"),
        ("dspark", "speculators"),
    ],
)
def test_one_axis_that_needs_other_weights(tiny, left, right):
    """Axes that decide which tensors there are; variants share every tensor of the same name and shape."""
    # the two GELUs differ by less than 1e-3 everywhere
    least = 10 * TOLERANCE / 6 if right == "zlab-gelu-tanh" else CHANGE
    assert difference(base_result(tiny, left, ()), base_result(tiny, right, ())) > least


@pytest.mark.parametrize(
    ("variant", "kind"),
    [
        ("speculators", "offset"),
        ("speculators", "absolute"),
        ("speculators", "none"),
        ("speculators-whole", "none"),
        ("speculators-permuted", "offset"),
        ("dspark", "offset"),
        ("dspark-rnn", "absolute"),
        ("dspark-permuted", "offset"),
    ],
)
def test_drafts_are_target_ids(tiny, variant, kind):
    """Drafts are the mapped ids of the largest logits, and the ids before mapping are others."""
    pair = tiny(variant)
    result = run(pair, (f"head.vocabulary_map={kind}",))
    assert result["logits"].shape == (WIDTH - 1, len(pair.weights["lm_head.weight"]))
    best = result["logits"].argmax(-1)
    if kind != "none":
        wanted = pair.weights["d2t"][best] + (best if kind == "offset" else 0)
        assert not torch.equal(wanted, best)
        best = wanted
    assert torch.equal(result["tokens"], best)


def test_the_map_of_a_block_without_a_markov_head_changes_drafts_only(tiny):
    offset, absolute = (
        run(tiny("speculators"), ()),
        run(tiny("speculators"), ("head.vocabulary_map=absolute",)),
    )
    assert difference(offset, absolute) == 0
    assert offset["tokens"].tolist() != absolute["tokens"].tolist()


def test_later_slots_follow_the_mapped_drafts(tiny):
    """Markov and confidence head embed target ids: the first slot stays the same, later ones do not."""
    offset, absolute = run(tiny("dspark"), ()), run(tiny("dspark"), ("head.vocabulary_map=absolute",))
    assert torch.equal(offset["logits"][0], absolute["logits"][0])
    assert torch.equal(offset["confidence"][0], absolute["confidence"][0])
    assert float((offset["logits"][1] - absolute["logits"][1]).abs().max()) > CHANGE
    assert float((offset["confidence"][1] - absolute["confidence"][1]).abs()) > CHANGE


def test_fused_names_are_the_same_model(tiny):
    """Poolside's stacked projections and norm names hold what the canonical names hold."""
    assert difference(run(tiny("laguna-bias"), ()), run(tiny("laguna-fused"), ())) < 1e-5


@pytest.mark.parametrize("which", "qkvo")
def test_every_bias_counts(tiny, tmp_path, which):
    """Each projection's bias by itself; that of keys moves them before their norm."""
    name = f"layers.0.self_attn.{which}_proj.bias"
    pair = write_pair(tmp_path, "zlab-bias", {name: torch.zeros_like(tiny("zlab-bias").weights[name])})
    assert difference(base_result(tiny, "zlab-bias", ()), run(pair, ())) > CHANGE


def test_gates_differ_between_heads(tiny, tmp_path):
    """The gate of one head changes what that head contributes, and a gate of zero is a factor of log 2."""
    name = "layers.1.self_attn.g_proj.weight"
    one = tiny("laguna").weights[name].clone()
    one[2] = 0
    base = base_result(tiny, "laguna", ())
    assert difference(base, run(write_pair(tmp_path / "one", "laguna", {name: one}), ())) > CHANGE
    flat = write_pair(tmp_path / "flat", "laguna", {name: torch.zeros_like(one)})
    output = "layers.1.self_attn.o_proj.weight"
    scaled = {output: flat.weights[output] * math.log(2)}
    plain = write_pair(tmp_path / "plain", "laguna", scaled)
    assert difference(run(flat, ()), run(plain, ("attention.gate[1]=none",))) < 1e-5


@pytest.mark.parametrize(
    ("base", "change", "why"),
    [
        ((), "taps.layers=3,1", "features arrive concatenated"),
        ((), "attention.window[1]=64", "wider than everything there is"),
        ((), "attention.window_rule[1]=anchor", "the layer has no window"),
        (("rope.rotary_dims=2",), "rope.layout=interleaved", "one pair, the same in both layouts"),
        ((), "rope.placement=last", "the whole head is rotated"),
        ((), "rope.scaling=linear:factor=1", "a factor of one"),
        (("block.width=5",), "block.proposals=2", "the first two of the same block"),
        (("attention.window=none", BIDIRECTIONAL, "block.width=2"), "attention.window[1]=30", "too wide"),
    ],
)
def test_changes_without_effect(tiny, base, change, why):
    """By construction nothing can change; the reason is in `why`."""
    pair = tiny("zlab")
    assert difference(base_result(tiny, "zlab", base), run(pair, (*base, change))) < 1e-5, why


@pytest.mark.parametrize(
    ("extra", "options"),
    [
        ("", {}),
        (":mscale=2:mscale_all_dim=0.5", {"mscale": 2.0, "mscale_all_dim": 0.5}),
        (":mscale=2", {"mscale": 2.0}),
        (":attention_factor=0.7", {"attention_factor": 0.7}),
    ],
)
def test_attention_factor_follows_the_scaling(tiny, extra, options):
    """An overridden YaRN brings its own factor on cosine and sine, as transformers computes it."""
    from transformers import Qwen3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {"factor": 4.0, "original_max_position_embeddings": 32, **options}
    config = Qwen3Config(
        head_dim=HEAD_DIM,
        max_position_embeddings=128,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, **parameters},
    )
    _, wanted = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
    contract, _, _ = tiny("zlab").drafter((YARN + extra,))
    assert contract["rope.attention_factor"] == pytest.approx((wanted,) * LAYERS)


def test_softcap_after_a_sequence_head_that_is_absent(tiny):
    """Without a Markov head the softcap's order means nothing, but the softcap still holds."""
    base = ("markov.kind=none", "head.softcap=2")
    pair = tiny("deepspec-no-confidence")
    assert difference(run(pair, base), run(pair, (*base, "head.softcap_order=after_sequence_head"))) < 1e-5


@pytest.mark.parametrize(
    "override",
    [
        "rope.rotary_dims[1]=12",
        "rope.layout=half,interleaved",
        "rope.placement=first,last",
        "taps.basis=rotated",
        "fusion.fc=false",
        "attention.sinks[0]=true",
        "attention.value_norm=true",
        "attention.kv_shared=true",
        "rope.positions=mrope",
        "block.position_offset=4097",
        "block.position_offset=-4097",
    ],
)
def test_values_that_are_refused(tiny, override):
    """What the drafter cannot honour it names; nothing is ignored."""
    with pytest.raises(InputError, match=re.escape(override.split("[")[0].split("=")[0])):
        tiny("zlab").drafter((override,))


def test_a_confidence_head_before_the_norm_is_refused(tiny):
    with pytest.raises(InputError, match=r"confidence\.input=pre_norm"):
        tiny("dspark").drafter(("confidence.input=pre_norm",))


@pytest.mark.parametrize(
    ("variant", "override", "missing"),
    [
        ("zlab", "fusion.tap_norm=true", "fc_norm.0.weight, expected one of shape [32]"),
        ("zlab", "fusion.concat_norm=true", "input_norm.weight, expected one of shape [64]"),
        ("speculators-wide", "fusion.tap_norm=true", "fc_norm.1.weight, expected one of shape [48]"),
        ("speculators-wide", "fusion.concat_norm=true", "input_norm.weight, expected one of shape [96]"),
        (
            "zlab",
            "attention.gate=softplus",
            "layers.0.self_attn.g_proj.weight, expected one of shape [4, 32]",
        ),
        ("zlab", "attention.gate[1]=softplus", "layers.1.self_attn.g_proj.weight"),
        ("laguna", "attention.gate=softplus", "layers.1.self_attn.g_proj.weight"),
        (
            "zlab",
            "backbone.attention_bias=true",
            "layers.0.self_attn.q_proj.bias, expected one of shape [64]",
        ),
        ("zlab-bias", "attention.window=3", "layers.1.self_attn.v_proj.bias, expected one of shape [32]"),
        ("zlab", "head.vocabulary_map=offset", "d2t, expected one of shape [64]"),
        ("zlab", "head.vocabulary_map=absolute", "d2t, expected one of shape [64]"),
        ("speculators", "head.vocabulary_map=absolute", "d2t, expected one of shape [40]"),
        ("speculators", "head.vocabulary_map=offset", "lm_head.weight, expected one of shape [40, 32]"),
    ],
)
def test_values_that_need_tensors_which_are_absent(tmp_path, variant, override, missing):
    """One line says which tensor a value needs."""
    pair = write_pair(tmp_path, variant)
    tensor = missing.split(",")[0]
    save_file({k: v for k, v in pair.weights.items() if k != tensor}, pair.draft / "model.safetensors")
    with pytest.raises(InputError, match=re.escape(f"no tensor {missing}")) as error:
        pair.drafter((override,))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("variant", "override", "row", "entry", "found"),
    [
        ("speculators", "head.vocabulary_map=offset", 39, VOCABULARY - 39, VOCABULARY),
        ("speculators", "head.vocabulary_map=offset", 0, -1, -1),
        ("speculators", "head.vocabulary_map=offset", 7, -8, -1),
        ("speculators", "head.vocabulary_map=absolute", 7, VOCABULARY, VOCABULARY),
        ("speculators", "head.vocabulary_map=absolute", 0, -1, -1),
        ("dspark", "head.vocabulary_map=offset", 20, 2**40, 2**40 + 20),
        ("dspark", "head.vocabulary_map=offset", 1, 2**63 - 1, ""),
        ("dspark", "head.vocabulary_map=absolute", 1, -(2**63), -(2**63)),
    ],
)
def test_ids_outside_the_vocabulary_of_the_target(tiny, tmp_path, variant, override, row, entry, found):
    """A map that leads out of the target's vocabulary is one line that names it, not a lookup gone wrong."""
    table = tiny(variant).weights["d2t"].clone()
    table[row] = entry
    pair = write_pair(tmp_path, variant, {"d2t": table})
    with pytest.raises(InputError, match=rf"d2t.*{row}.*{found}") as error:
        pair.drafter((override,))
    assert "\n" not in str(error.value)


def test_the_last_id_of_the_target_may_be_drafted(tiny, tmp_path):
    """The ends of the target's vocabulary, in a map of 32-bit numbers."""
    table = tiny("dspark").weights["d2t"].clone()
    table[0], table[REDUCED - 1] = 0, VOCABULARY - REDUCED
    run(write_pair(tmp_path, "dspark", {"d2t": table.int()}), ())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.bool], ids=str)
def test_a_map_that_holds_no_integers(tiny, tmp_path, dtype):
    pair = write_pair(tmp_path, "speculators", {"d2t": tiny("speculators").weights["d2t"].to(dtype)})
    with pytest.raises(InputError, match="d2t: found dtype") as error:
        pair.drafter()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("rows", "shape"), [(39, "[39]"), (41, "[41]"), (0, "[0]")])
def test_a_map_of_another_length_than_the_head(tiny, tmp_path, rows, shape):
    """The sizes contradict each other; settled by hand, the map has the wrong shape."""
    pair = write_pair(tmp_path, "speculators", {"d2t": torch.zeros(rows, dtype=torch.int64)})
    with pytest.raises(InputError, match=re.escape(f"d2t: found shape {shape}, expected [40]")):
        pair.drafter((f"head.vocabulary={REDUCED}",))


@pytest.mark.parametrize(
    ("variant", "override"),
    [("speculators", "head.source=target"), ("dspark", "head.source=target"), ("zlab", "head.vocabulary=40")],
)
def test_the_head_of_the_target_scores_no_reduced_vocabulary(tiny, variant, override):
    """Its 64 rows are not 40 draft ids; nothing says which of them would be."""
    with pytest.raises(InputError, match="head") as error:
        tiny(variant).drafter((override,))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("rows", [1, 5, 8, 60])
@pytest.mark.parametrize("variant", ["zlab", "deepspec-rnn", "laguna-fused", "dspark"])
def test_context_lengths(tiny, variant, rows):
    run(tiny(variant), (), (rows,))


INCREMENTAL: list[tuple[str, tuple[str, ...]]] = [
    ("zlab", ()),
    ("zlab", ("context.end=through_anchor",)),
    ("zlab", ("attention.window=4,9", "attention.window_rule=query,anchor")),
    ("zlab", ("attention.window=3", BIDIRECTIONAL, "block.position_offset=1")),
    ("zlab", (YARN, "rope.rotary_dims=6", "rope.placement=last", "rope.layout=interleaved")),
    ("zlab-plain-qk", ("fusion.input_norm_on_context=true",)),
    ("deepspec-rnn", ()),
    ("deepspec-gated", ("attention.window=6", "context.end=through_anchor")),
    ("zlab-bias", ("fusion.input_norm_on_context=true",)),
    ("laguna", ("fusion.concat_norm=true",)),
    ("speculators", ("attention.window=4",)),
    ("dspark-rnn", ("attention.window=5", "attention.causal=true", "context.end=through_anchor")),
]


@pytest.mark.parametrize(("variant", "overrides"), INCREMENTAL, ids=lambda part: str(part))
def test_context_in_increments(tiny, variant, overrides):
    """Rounds at 6, 7, 11 and 13 rows each equal the reference, and the last one the context fed at once."""
    once = base_result(tiny, variant, overrides)
    grown = run(tiny(variant), overrides, (6, 7, 11, ROWS))
    assert difference(once, grown) < 1e-5
    assert once["tokens"].tolist() == grown["tokens"].tolist()


# ---------------------------------------------------------------------------------- random combinations


def random_overrides(dice: random.Random, variant: str) -> list[str]:
    """About half of all axes, each with a random value, on top of a variant's own."""

    def each(values: Sequence[object]) -> str:
        return ",".join(str(dice.choice(values)) for _ in range(LAYERS))

    flag = ("true", "false")
    scalings = ("none", "linear:factor=2.5", YARN.partition("=")[2], LLAMA3.partition("=")[2])
    first = dice.choice(("predicts_next", "unused"))
    proposals = dice.randint(1, 5)
    options = {
        "fusion.output_norm": dice.choice(flag),
        "fusion.input_norm_on_context": dice.choice(flag),
        "block.anchor_fill": dice.choice(("token", "mask")),
        "block.mask_token_id": dice.randrange(VOCABULARY),
        "block.position_offset": dice.randint(-2, 3),
        "context.end": dice.choice(("before_anchor", "through_anchor")),
        "attention.window": each((None, 1, 3, 6, 10, 17)),
        "attention.window_rule": each(("query", "anchor")),
        "attention.causal": each(flag),
        "attention.scale": each((0.1, 0.25, 0.5)),
        "rope.theta": each((100, 5000, 1000000)),
        "rope.rotary_dims": dice.choice((2, 4, 6, 10, 16)),
        "rope.placement": dice.choice(("first", "last")),
        "rope.layout": dice.choice(("half", "interleaved")),
        "rope.scaling": each(scalings),
        "rope.attention_factor": each((0.8, 1, 1.3)),
        "embedding.source": dice.choice(("target", "own")),
        "embedding.scale": dice.choice((0.3, 1, 5.5)),
        "head.source": dice.choice(("target", "own")),
        "head.softcap": dice.choice(("none", 4, 9)),
        "head.multiplier": dice.choice((0.5, 1, 2)),
        "backbone.activation": dice.choice(("silu", "gelu", "gelu_tanh")),
        "backbone.norm_eps": dice.choice((1e-6, 1e-2)),
    }
    if variant.startswith(NORMS):
        options |= {
            "fusion.tap_norm": dice.choice(flag),
            "fusion.concat_norm": dice.choice(flag),
            "attention.gate": each(("none", "softplus")),
        }
    if "d2t" in shapes(variant, VARIANTS[variant]):
        options["head.vocabulary_map"] = dice.choice(("none", "offset", "absolute"))
        options["head.source"] = "own"
    if "bias" in variant or "fused" in variant:
        options["backbone.attention_bias"] = dice.choice(flag)
    if variant.startswith(("deepspec", "dspark")):
        options |= {
            "head.softcap_order": dice.choice(("before_sequence_head", "after_sequence_head")),
            "markov.previous": dice.choice(("previous_token", "anchor")),
            "confidence.bias": dice.choice(flag),
        }
    chosen = [f"{axis}={str(value).replace('None', 'none')}" for axis, value in options.items()]
    chosen = [override for override in chosen if dice.random() < 0.6]
    width = proposals + (first == "unused") + dice.randint(0, 1)
    return [
        *chosen,
        f"block.first_slot={first}",
        f"block.width={width}",
        f"block.proposals={proposals}",
    ]


COMBINED = {
    "zlab": 10,
    "zlab-plain-qk": 5,
    "zlab-1-kv-head": 4,
    "zlab-4-kv-heads": 2,
    "deepspec": 7,
    "deepspec-gated": 5,
    "deepspec-rnn": 5,
    "deepspec-confidence-alone": 2,
    "zlab-bias": 3,
    "laguna": 3,
    "laguna-fused": 4,
    "speculators": 3,
    "speculators-whole": 2,
    "dspark": 4,
    "dspark-gated": 2,
    "dspark-rnn": 3,
}


@pytest.mark.parametrize(
    ("variant", "seed"), [(name, seed) for name, count in COMBINED.items() for seed in range(count)]
)
def test_random_combinations(tiny, variant, seed):
    """Many axes at once, with a context that grows and, in every third case, has unwritten rows."""
    dice = random.Random(f"{variant} {seed}")
    overrides = random_overrides(dice, variant)
    rows = dice.randint(5, 14)
    holes = slice(dice.randint(0, 2), dice.randint(3, 5)) if seed % 3 == 2 else None
    run(tiny(variant), overrides, (rows, rows + dice.randint(1, 5)), holes)


def test_a_confidence_head_cannot_read_a_markov_head_that_is_absent(tiny):
    with pytest.raises(InputError, match=r"confidence\.with_markov=true: found markov\.kind=none"):
        tiny("deepspec-rnn").drafter(("markov.kind=none",))


@pytest.mark.parametrize("offset", [-1, -2, -6])
def test_a_block_may_start_before_the_first_token(tiny, offset):
    """A rotation by a negative position turns the other way, in the product as in the reference."""
    run(tiny("zlab"), (f"block.position_offset={offset}",), (2,))
