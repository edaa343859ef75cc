"""llama.cpp: its converter from Hugging Face checkpoints and its runtime, as one reading.

Read at ggml-org/llama.cpp@0c1e57098 (vendored in llama-cpp-python 0.3.36); nothing was run.
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.contract import Deployment
from truedraft.formats._keys import BOOLEAN, INTEGER, INTEGERS, NUMBER
from truedraft.formats.engines._common import causal_setting, width_from_k
from truedraft.formats.engines._types import Engine, EngineId, Fact, Hazard, PairFiles, Refusal

_QWEN = "llama.cpp@0c1e57098 conversion/qwen.py"
_EAGLE = "llama.cpp@0c1e57098 conversion/llama.py"
_RUNTIME = "llama.cpp@0c1e57098 common/speculative.cpp"
_CONTEXT = "llama.cpp@0c1e57098 src/llama-context.cpp"

DEFAULT_K = 3
_NO_INPUTS = ("deepseek_v2", "deepseek_v3", "kimi", "glm4_moe", "glm_moe", "glm5")
"""Targets whose graphs do not keep the inputs of their layers."""
_LAST_LAYER = ("deepseek_v4", "mimo", "nemotron")


def _refusals(files: PairFiles) -> Iterator[Refusal]:
    native, keys = files.native, files.keys
    where = "draft/config.json#/architectures"
    if files.speculators and native.family == "dflash":
        yield Refusal("its converter does not know speculators' DFlash", where, _QWEN)
    if native.get("markov.kind") in ("gated", "rnn"):
        why = "unsupported markov_head_type (only 'vanilla' is supported)"
        yield Refusal(why, "draft/config.json#/markov_head_type", _QWEN)
    if native.family == "eagle3":
        if native.get("fusion.tap_norm"):
            yield Refusal("fc_norm tensors are not mapped", "draft/config.json#/fc_norm", _EAGLE)
        ids = keys.get("eagle_aux_hidden_state_layer_ids", INTEGERS)
        if ids is not None and len(ids) != 3:
            why = "EAGLE3 requires exactly 3 entries in 'extract_layers'"
            yield Refusal(why, "draft/config.json#/eagle_aux_hidden_state_layer_ids", _EAGLE)
        return
    if files.spec.model_type.startswith(_NO_INPUTS):
        why = f"{files.spec.model_type} gives no layer inputs: 'layer input tensor not found'"
        yield Refusal(why, f"{files.spec.where}/model_type", _CONTEXT)
    taps = native.tuple_of("taps.layers")
    taps_at = "draft/config.json#/dflash_config/target_layer_ids"
    if not taps:
        yield Refusal("DFlash model requires 'target_layers' in GGUF metadata", taps_at, _CONTEXT)
    if -1 in taps:
        yield Refusal("a tap of the embedding (-1) fails an assertion", taps_at, _CONTEXT)
    if files.spec.layers - 1 in taps and not files.spec.model_type.startswith(_LAST_LAYER):
        yield Refusal("a tap of the last layer: 'layer input tensor not found'", taps_at, _CONTEXT)


def _taps(files: PairFiles) -> Iterator[Fact]:
    native, keys = files.native, files.keys
    if native.family == "eagle3":
        ids = keys.get("eagle_aux_hidden_state_layer_ids", INTEGERS)
        layers = files.spec.layers
        entries = ids or (2, layers // 2, layers - 3)
        why = "top-level ids are entries of layers; without them (eagle_config is not read) 2, N//2, N-3"
        fix = "write entries of layers as eagle_aux_hidden_state_layer_ids at the top level"
        yield Fact("taps.layers", tuple(n - 1 for n in entries), why, _EAGLE, fix=fix)


def _slots(files: PairFiles) -> Iterator[Fact]:
    native, keys = files.native, files.keys
    if native.family not in ("dflash", "dspark"):
        return
    anchor = False
    why = "as draft-dflash it never predicts with slot 0"
    fix = ""
    if native.family == "dspark":
        stated = keys.get("sample_from_anchor", BOOLEAN)
        anchor = (not files.speculators) if stated is None else stated
        why = "an absent sample_from_anchor means false in speculators' format and true elsewhere"
        fix = "state sample_from_anchor in the draft config before converting"
    first = "predicts_next" if anchor else "unused"
    yield Fact("block.first_slot", first, why, f"{_QWEN}, {_RUNTIME}", fix=fix)
    trained = native.get("block.proposals")
    most = files.asked if files.asked is not None else DEFAULT_K
    if trained is not None:
        most = min(most, trained)
    yield from width_from_k(
        files,
        unused=not anchor,
        most=most,
        reference=f"{_RUNTIME} (--spec-draft-n-max, default {DEFAULT_K})",
        fix=f"--spec-draft-n-max {trained}" if trained is not None else "",
        severity="warning",
    )


def _attention(files: PairFiles) -> Iterator[Fact]:
    keys = files.decoder
    if files.native.family not in ("dflash", "dspark") or files.embedded:
        return
    forced = keys.get("dflash_config/use_swa", BOOLEAN) is True
    uses = keys.get("use_sliding_window", BOOLEAN) is True
    width = keys.get("dflash_config/swa_window_size", INTEGER) or keys.get("sliding_window", INTEGER)
    sliding = files.sliding() or (False,) * files.layers
    why = "windows need use_sliding_window (or dflash_config.use_swa); layer_types alone is not enough"
    fix = 'write "use_sliding_window": true before converting'
    on = [forced or (uses and slides) for slides in sliding]
    if files.native.dialect == "transformers":
        on, why = list(sliding), "layer_types and sliding_window"
    value = tuple(width if entry and width else None for entry in on)
    cost = "fine below W, then late positions fall to 0 (AEON#6)"
    yield Fact("attention.window", value, why, _QWEN, cost, fix)
    flag = keys.get("is_causal", BOOLEAN)
    flag = keys.get("dflash_config/causal", BOOLEAN) if flag is None else flag
    why = "one flag for all draft layers (is_causal, dflash_config.causal), absent means not causal"
    yield Fact(
        "attention.causal",
        (bool(flag),) * files.layers,
        why,
        f"{_QWEN}, {_RUNTIME}",
        fix=causal_setting(files, "is_causal"),
    )
    if any(value):
        rule = ("query",) * files.layers
        why = "a key is masked iff q-k >= W"
        yield Fact("attention.window_rule", rule, why, "llama.cpp src/llama-hparams.h", severity="warning")


def _rope(files: PairFiles) -> Iterator[Fact]:
    head_dim = files.native.get("backbone.head_dim")
    if not head_dim or files.embedded:
        return
    share = None
    for key in ("rope_parameters/partial_rotary_factor", "partial_rotary_factor"):
        share = share or files.decoder.get(key, NUMBER)
    if share and 0 < share <= 1:
        why = "partial_rotary_factor becomes the rope dimension count"
        fix = "remove partial_rotary_factor before converting"
        reference = "llama.cpp@0c1e57098 conversion/base.py"
        yield Fact("rope.rotary_dims", (int(head_dim * share),) * files.layers, why, reference, fix=fix)


def _tables(files: PairFiles) -> Iterator[Fact | Hazard]:
    native = files.native
    own = native.family == "dspark" and native.get("head.source") == "own" and not files.embedded
    if own and native.get("head.vocabulary_map") == "none" and not files.spec.tied_head:
        why = (
            "the converter drops lm_head of a full vocabulary and keeps embed_tokens, which the loader "
            "then takes as head (read in two places, not run)"
        )
        at, fix = f"{_QWEN}, src/models/dflash.cpp", "remove embed_tokens before converting"
        yield Hazard("defect", why, at, fix=fix)
    if native.family == "dflash" and native.get("head.softcap") is not None:
        why = "softcap and multiplier are applied for DFlash 2 only"
        yield Fact("head.softcap", None, why, "llama.cpp@0c1e57098 src/models/dflash.cpp", severity="warning")


def _chain(files: PairFiles) -> Iterator[Fact]:
    if files.native.family != "eagle3":
        return
    raw = files.keys.get("norm_before_residual", BOOLEAN)
    why = "norm_before_residual is read at the top level, an absent one means false"
    fix = "state norm_before_residual at the top level before converting"
    yield Fact("chain.norm_before_residual", bool(raw), why, _EAGLE, fix=fix)
    why = "norm_output is not read: the state before the norm is fed back"
    yield Fact(
        "chain.feedback", "residual", why, "llama.cpp@0c1e57098 src/models/eagle3.cpp", severity="warning"
    )


def _mask(files: PairFiles) -> Iterator[Hazard]:
    nested = files.keys.get("dflash_config/mask_token_id", INTEGER)
    if (
        files.native.dialect == "zlab"
        and nested is None
        and files.native.get("block.mask_token_id") is not None
    ):
        why = "a flat mask_token_id is lost in conversion, and the runtime's mask token is then unset"
        yield Hazard("defect", why, _QWEN, fix="nest mask_token_id in dflash_config", severity="error")


LLAMA_CPP = (
    Engine(
        EngineId("llama.cpp", "0c1e57098"),
        "source of converter and runtime",
        (_refusals, _taps, _slots, _attention, _rope, _tables, _chain, _mask),
        Deployment(runner="llama.cpp", speculative_tokens=DEFAULT_K),
    ),
)
"""Releases, older ones first."""
