"""transformers' DFlash generator (`generate(assistant_model=…, speculation_type="dflash")`).

Its only drafter class is MuseGlimmerAssistantModel; a z-lab checkpoint loads into it once `fc` and
`hidden_norm` are renamed and its nested keys are written at the top level. Read in 5.23.0; the window was
also run.
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.contract import Deployment
from truedraft.formats._keys import INTEGER, INTEGERS
from truedraft.formats.engines._types import Engine, EngineId, Fact, Hazard, PairFiles, Refusal

_GENERATOR = "transformers 5.23 generation/candidate_generator.py"
_MODEL = "transformers 5.23 muse_glimmer_assistant/modeling_muse_glimmer_assistant.py"
_MASKS = "transformers 5.23 masking_utils.py"
_DEFAULT_TAPS = (1, 13, 25, 37, 49)
_DEFAULT_MASK = 201818
_STATEFUL = ("qwen3_5", "qwen3_next", "deepseek_v4")


def _refusals(files: PairFiles) -> Iterator[Refusal]:
    where = "draft/config.json#/architectures"
    if files.native.family != "dflash" or files.speculators:
        what = "speculators format" if files.speculators else files.native.family
        yield Refusal(f"it has no generator for {what} drafters", where, _GENERATOR)
    if files.spec.model_type.startswith(_STATEFUL):
        why = "assisted generation is not supported with stateful models"
        yield Refusal(why, f"{files.spec.where}/model_type", "transformers 5.23 generation/utils.py")
    if files.native.get("block.first_slot") == "predicts_next":
        why = "it drops slot 0 of every block, which this drafter was trained to use"
        yield Refusal(why, where, _GENERATOR, "an engine that reads sample_from_anchor")


def _taps(files: PairFiles) -> Iterator[Fact]:
    ids = files.keys.get("target_layer_ids", INTEGERS)
    if ids is None:
        why = "it reads target_layer_ids at the top level only and falls back to its own model's"
        fix = "write dflash_config.target_layer_ids at the top level too"
        yield Fact("taps.layers", _DEFAULT_TAPS, why, _GENERATOR, fix=fix)
    else:
        yield Fact("taps.layers", ids, "id i is hidden_states[i + 1]", _GENERATOR)
    taps = ids or _DEFAULT_TAPS
    last = files.spec.layers - 1
    state = tuple("post_norm" if tap == last else "residual" for tap in taps)
    why = "hidden_states[-1] comes after the final norm"
    yield Fact("taps.state", state, why, "transformers 5.23 utils/output_capturing.py")


def _block(files: PairFiles) -> Iterator[Fact]:
    width = files.keys.get("block_size", INTEGER)
    why = "block_size is read at the top level only; without it a block has 16 rows"
    fix = "write dflash_config.block_size at the top level too"
    yield Fact("block.width", width or 16, why, _GENERATOR, fix=fix)
    yield Fact("block.proposals", (width or 16) - 1, why, _GENERATOR, fix=fix)
    mask = files.keys.get("mask_token_id", INTEGER)
    why = f"mask_token_id is read at the top level only; without it {_DEFAULT_MASK} is taken"
    fix = "write dflash_config.mask_token_id at the top level too"
    yield Fact("block.mask_token_id", _DEFAULT_MASK if mask is None else mask, why, _MODEL, fix=fix)


def _attention(files: PairFiles) -> Iterator[Fact]:
    layers = files.layers
    free = "no layer is causal; is_causal is not read"
    cost, fix = "up to a fifth where sliding layers are causal", "an engine that reads is_causal"
    yield Fact("attention.causal", (False,) * layers, free, _MODEL, cost, fix)
    sliding = files.sliding(files.keys)
    width = files.keys.get("sliding_window", INTEGER) or 2048
    slides = (True,) * layers if sliding is None else sliding
    why = (
        "a row is visible iff |q-k| <= W, one row more than elsewhere (sdpa and eager; flash counts as "
        "others)"
    )
    window = tuple(width + 1 if entry else None for entry in slides)
    yield Fact("attention.window", window, why, _MASKS, severity="warning")


def _hazards(files: PairFiles) -> Iterator[Hazard]:
    if files.native.get("embedding.scale") != 1.0 or files.spec.embedding_scale != 1.0:
        why = "the target's embedding module scales its rows, and the drafter gets them scaled"
        yield Hazard("defect", why, _GENERATOR, severity="note")


TRANSFORMERS = (
    Engine(
        EngineId("transformers", "5.23"),
        "source of 5.23.0; drafts compared token by token",
        (_refusals, _taps, _block, _attention, _hazards),
        Deployment(runner="transformers"),
    ),
)
"""Releases, older ones first."""
