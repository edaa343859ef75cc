"""Small DeepSeek-V4 checkpoints with stages inside, written to disk, and what the product makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from reference_deepseek_v4 import Drafted, draft, random_weights
from safetensors.torch import save_file
from torch import Tensor

from conftest import greedy_read
from truedraft import Contract, resolve
from truedraft.decode import KVCache, Round
from truedraft.models import BlockDrafter
from truedraft.models.load import load_tensors, make_drafter

VOCABULARY, HIDDEN, STAGES, LAYERS, WINDOW, WIDTH = 61, 40, 3, 6, 9, 5
TOLERANCE = 2e-5

CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "moe_intermediate_size": 20,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 6,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 20,
    "o_lora_rank": 6,
    "o_groups": 3,
    "n_routed_experts": 7,
    "n_shared_experts": 1,
    "num_experts_per_tok": 3,
    "num_hash_layers": 1,
    "num_nextn_predict_layers": 1,
    "hc_mult": 4,
    "hc_eps": 1e-4,
    "hc_sinkhorn_iters": 4,
    "sliding_window": WINDOW,
    "max_position_embeddings": 4096,
    "swiglu_limit": 0.6,
    "routed_scaling_factor": 1.7,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "rope_theta": 10000,
    "compress_rope_theta": 160000,
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 64,
    },
    "rms_norm_eps": 1e-5,
    "compress_ratios": [0, 0, 4, 128, 4, 128, 0, 0, 0],
    "dspark_block_size": WIDTH,
    "dspark_noise_token_id": 60,
    "dspark_target_layer_ids": [3, 4, 5],
    "dspark_markov_rank": 8,
    "eos_token_id": 1,
}
"""V4-Flash in small: the same kinds of layers behind each other, three stages of ratio 0."""

_dice = torch.Generator().manual_seed(11)
EMBEDDING = torch.randn(VOCABULARY, HIDDEN, generator=_dice)
HEAD = torch.randn(VOCABULARY, HIDDEN, generator=_dice) * 2 / HIDDEN**0.5
TAPS = torch.randn(48, 3 * HIDDEN, generator=_dice)
TOKENS = torch.randint(2, 60, (64,), generator=_dice)


@dataclass(frozen=True)
class Staged:
    """One checkpoint on disk. `config`, `weights`: what the reference is given."""

    directory: Path
    config: dict[str, Any]
    weights: dict[str, Tensor]

    def drafter(
        self, overrides: Sequence[str] = (), target: Path | None = None
    ) -> tuple[Contract, BlockDrafter]:
        """The product's drafter by the files and overrides. `target`: another checkpoint's directory."""
        found = resolve(target or self.directory, self.directory, overrides)
        assert found.contract.unsettled == ()
        stored = load_tensors(found.tensors, dtype=torch.float32, device="cpu")
        drafter = make_drafter(found.contract, stored, EMBEDDING, HEAD)
        assert isinstance(drafter, BlockDrafter)
        return found.contract, drafter

    def wanted(self, rows: int, changes: Mapping[str, Any] | None = None, **more: Any) -> Drafted:
        """The reference's round with its anchor behind `rows` rows; the config with `changes`."""
        config, weights = {**self.config, **(changes or {})}, more.pop("weights", self.weights)
        tables = more.pop("embedding", EMBEDDING), more.pop("head", HEAD)
        anchor = more.pop("anchor", int(TOKENS[rows]))
        taps = more.pop("taps", TAPS[:rows])
        return draft(config, weights, *tables, taps, anchor, len(taps), **more)


def write_stages(
    directory: Path,
    changes: Mapping[str, Any] | None = None,
    replaced: Mapping[str, Tensor] | None = None,
    *,
    stages: int = STAGES,
    ratios: Sequence[int] | None = None,
    renames: Mapping[str, str] | None = None,
) -> Staged:
    """A checkpoint in `directory`: `CONFIG` with `changes`, random weights, some of them `replaced`.

    `ratios`: the stages' own entries of `compress_ratios`, 0 by default. `renames`: parts of names, and what
    the file has in their place.
    """
    config = {**CONFIG, **(changes or {})}
    config["compress_ratios"] = [*CONFIG["compress_ratios"][:LAYERS], *(ratios or [0] * stages)]
    weights = {**random_weights(config, VOCABULARY, stages, seed=5), **(replaced or {})}
    stored = dict(weights)
    for name in weights:
        for part, other in (renames or {}).items():
            if part in name:
                stored[name.replace(part, other)] = stored.pop(name)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file({name: value.contiguous() for name, value in stored.items()}, directory / "model.safetensors")
    return Staged(directory, config, weights)


def turn(sequence: int, first: int, rows: int, *, last: bool = False, shift: int = 0) -> Round:
    """A turn with the rows first … rows - 1. `last`: the last of them is the anchor's own row.

    `shift`: another sequence's features and tokens, rotated by so many.
    """
    tokens, anchor = TOKENS.roll(shift), rows - 1 if last else rows
    return Round(
        sequence,
        TAPS.roll(shift, 0)[first:rows],
        tokens[first:rows],
        tokens[first + 1 : rows + 1],
        first,
        tokens[anchor],
        anchor,
    )


@torch.inference_mode()
def product(drafter: BlockDrafter, one: Round, cache: KVCache) -> dict[str, Tensor]:
    """One sequence's round under the reference's names."""
    drafter.extend([one], cache)
    hidden = drafter.block([one], cache)
    tokens, logits, confidence = greedy_read(drafter, hidden, one.anchor_token[None])
    out = {"hidden": hidden[0], "tokens": tokens[0], "logits": logits[0]}
    return out if confidence is None else {**out, "confidence": confidence[0]}


def drafted(drafter: BlockDrafter, rows: int, *, last: bool = False) -> dict[str, Tensor]:
    """The product's first round, with all rows at once."""
    cache = drafter.new_cache()
    return product(drafter, turn(cache.open(), 0, rows, last=last), cache)


def same(found: Mapping[str, Tensor], wanted: Drafted, tolerance: float = TOLERANCE) -> None:
    """Hidden states, logits, confidence and tokens."""
    close(found["hidden"][: len(wanted.tokens)], wanted.hidden_pre_norm, tolerance)
    close(found["logits"], wanted.logits, tolerance)
    close(found["confidence"], wanted.confidence, tolerance)
    assert found["tokens"].tolist() == wanted.tokens.tolist()


def close(found: Tensor, wanted: Tensor, tolerance: float = TOLERANCE) -> None:
    """Equal within `tolerance` of the largest entry."""
    assert found.shape == wanted.shape
    scale = max(1.0, float(wanted.abs().max()))
    assert float((found - wanted).abs().max()) <= tolerance * scale
