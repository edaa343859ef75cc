"""SGLang: what its releases make of a drafter's config.

Read in the wheels of 0.5.16, 0.5.17, 0.5.18, 0.5.19 and 0.5.23 (`python/sglang/srt`); nothing was run. DSpark
came with 0.5.16 and learned `sample_from_anchor` in 0.5.19 (PR 30982).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from truedraft.contract import Deployment
from truedraft.formats._keys import BOOLEAN, INTEGER, INTEGERS, NUMBER, OBJECT, TEXT
from truedraft.formats.engines._common import causal_setting, width_from_k
from truedraft.formats.engines._types import (
    Engine,
    EngineId,
    Fact,
    Hazard,
    PairFiles,
    Refusal,
    Rule,
    Severity,
)
from truedraft.formats.traps import dropped_window

_AUX = "sglang spec_aux_hidden_state.py"
_DFLASH = "sglang speculative/dflash_utils.py"
_DSPARK = "sglang speculative/dspark_config.py"
_MODEL = "sglang models/dflash.py"
_EAGLE = "sglang models/llama_eagle3.py"

_BEFORE_NORM = ("gpt_oss", "gemma4", "mimo_v2", "laguna", "nemotron_h", "lfm2")
"""Targets whose last layer can be tapped, before the final norm."""

_RAW_UNLESS_ONE = ("deepseek", "kimi", "glm_moe_dsa", "glm4_moe_lite", "mistral3")
"""Targets that take EAGLE-3 ids as entries of layers unless the first is 1."""


@dataclass(frozen=True)
class _Release:
    """What changed between releases.

    `slots`: `sample_from_anchor` is read. `causal`: the kinds of layer for which `is_causal` is. `partial`:
    `partial_rotary_factor` is. `norms`: `norm_before_fc` is, and gpt-oss's ids may be entries; `assistant`:
    MuseGlimmerAssistantModel is known.
    """

    version: str
    slots: bool
    causal: Literal["none", "full", "both"]
    partial: bool
    norms: bool = True
    assistant: bool = True

    def refusals(self, files: PairFiles) -> Iterator[Refusal]:
        if files.speculators and not files.has("model_type"):
            why = "the config has no model_type, and speculators' format is not known to it"
            at, fix = "sglang utils/hf_transformers", "flatten the config first"
            yield Refusal(why, "draft/config.json", at, fix, certain=False)
            return
        if files.native.dialect == "transformers" and not self.assistant:
            why = "MuseGlimmerAssistantModel is not registered"
            yield Refusal(why, "draft/config.json#/architectures", _MODEL, "0.5.18 or newer")
        if dropped_window(files.draft, files.native) is not None:
            why = "DFLASH sliding_attention layers require config.sliding_window: Qwen3Config drops it here"
            where, fix = "draft/config.json#/use_sliding_window", '"use_sliding_window": true'
            yield Refusal(why, where, _MODEL, fix)
        yield from _layer_refusals(files)
        if files.native.family == "dspark" and not files.embedded:
            yield from _head_refusals(files)
        if files.native.family == "dflash" and files.native.dialect == "deepspec":
            why = "Qwen3DSparkModel needs a markov_rank above 0"
            yield Refusal(why, "draft/config.json#/markov_rank", _DSPARK)
        sliding = files.sliding(files.keys)
        if sliding and any(sliding) and files.keys.get("sliding_window", INTEGER) is None:
            why = "DFLASH sliding_attention layers require config.sliding_window"
            yield Refusal(why, "draft/config.json#/sliding_window", _MODEL, "state sliding_window")

    def taps(self, files: PairFiles) -> Iterator[Fact]:
        if files.embedded or self.foreign(files):
            return
        if files.native.family == "eagle3":
            yield from _eagle_taps(files, self.norms)
            return
        keys = files.keys
        ids = keys.get("dflash_config/target_layer_ids", INTEGERS) or keys.get("target_layer_ids", INTEGERS)
        if ids is None:
            why = "without target_layer_ids it takes layers from a formula, without a warning"
            fix = "state target_layer_ids in the draft config"
            cost = "a collapse; no error where the number of taps agrees"
            yield Fact("taps.layers", _formula(files), why, _DFLASH, cost, fix)
        elif files.spec.model_type.startswith("muse_glimmer") and files.native.dialect == "zlab":
            why = "Muse-Glimmer takes ids as entries of layers unless the drafter is of its own class"
            fix = "ids + 1, or the assistant's architecture"
            yield Fact("taps.layers", tuple(sorted({i - 1 for i in ids})), why, _AUX, fix=fix)
        else:
            why = "id i is the output of layer i; layers are captured in ascending order, each once"
            fix = "list the layers in ascending order and permute fc accordingly"
            yield Fact("taps.layers", tuple(sorted(set(ids))), why, _AUX, fix=fix)

    def slots_of(self, files: PairFiles) -> Iterator[Fact]:
        native, keys = files.native, files.keys
        if native.family == "dflash":
            why = "algorithm DFLASH never predicts with slot 0"
            yield Fact("block.first_slot", "unused", why, _DFLASH)
            size = keys.get("dflash_config/block_size", INTEGER) or keys.get("block_size", INTEGER) or 16
            most = files.asked if files.asked is not None else size - 1
            fix = "--speculative-num-draft-tokens = block_size"
            yield from width_from_k(files, unused=True, most=most, reference=_DFLASH, fix=fix)
        elif native.family == "dspark":
            yield from self._dspark_slots(files)

    def _dspark_slots(self, files: PairFiles) -> Iterator[Fact]:
        keys = files.keys
        stated = keys.get("sample_from_anchor", BOOLEAN) if self.slots else None
        anchor = stated is not False
        why = "every slot is a prediction, slot 0 too; sample_from_anchor is not read before 0.5.19"
        if self.slots:
            why = "sample_from_anchor is read at the top level only, and an absent one means true"
        cost = "1.1 instead of 4.05 (sglang#30982)"
        fix = "state sample_from_anchor at the top level" if self.slots else "0.5.19 or newer"
        first = "predicts_next" if anchor else "unused"
        yield Fact("block.first_slot", first, why, _DSPARK, cost, fix)
        size = None
        for key in ("dspark_block_size", "dflash_config/block_size", "block_size"):
            size = size or keys.get(key, INTEGER)
        most = files.asked if files.asked is not None else size
        if most is not None:
            rows = most + (not anchor)
            why = f"gamma = block_size = {most}, which makes {rows} query rows"
            fix = "--speculative-dspark-block-size = the trained number of proposals"
            grave: Severity = "note" if files.asked is not None else "warning"
            yield Fact("block.width", rows, why, _DSPARK, fix=fix, severity=grave)
            yield Fact("block.proposals", most, why, _DSPARK, fix=fix, severity=grave)

    def attention(self, files: PairFiles) -> Iterator[Fact]:
        if files.embedded or files.native.family == "eagle3" or self.foreign(files):
            return
        sliding = files.sliding(files.keys)
        stated = files.keys.get("is_causal", BOOLEAN)
        if stated is None and files.native.dialect == "transformers":
            stated = False  # MuseGlimmerAssistantConfig sets it
        if sliding is None:
            why = "without layer_types every layer is full, bidirectional and without a window"
            yield Fact("attention.window", (None,) * files.layers, why, _MODEL, fix="state layer_types")
            yield Fact("attention.causal", (False,) * files.layers, why, _MODEL, fix="state layer_types")
            return
        width = files.keys.get("sliding_window", INTEGER)
        why = "layer_types and sliding_window; dflash_config.use_swa and swa_window_size are not read"
        yield Fact("attention.window", tuple(width if slides else None for slides in sliding), why, _MODEL)
        full = stated is True and self.causal in ("full", "both")
        slide = stated is not False or self.causal != "both"
        why = f"sliding layers are causal, full ones are not; is_causal is read for {self.causal} of them"
        value = tuple(slide if slides else full for slides in sliding)
        fix = causal_setting(files, "is_causal") if self.causal == "both" else "0.5.18 or newer"
        yield Fact("attention.causal", value, why, _MODEL, fix=fix)

    def rope(self, files: PairFiles) -> Iterator[Fact]:
        head_dim = files.native.get("backbone.head_dim")
        if files.embedded or not head_dim or self.foreign(files):
            return
        chain = files.native.family == "eagle3"
        share = files.keys.get("partial_rotary_factor", NUMBER) if self.partial or chain else None
        dims = int(head_dim * share) if share else head_dim
        why = "partial_rotary_factor is read at the top level only" + ("" if chain else ", from 0.5.20 on")
        fix = "write partial_rotary_factor at the top level, or remove it"
        at = "sglang models/llama.py" if chain else _MODEL
        yield Fact("rope.rotary_dims", (dims,) * files.layers, why, at, fix=fix)
        if not any(files.has(key) for key in ("rope_theta", "rope_parameters", "rope_scaling")):
            why = "without rope_theta it takes 10000"
            yield Fact("rope.theta", (1e4,) * files.layers, why, at, fix="state rope_theta")

    def foreign(self, files: PairFiles) -> bool:
        """Whether it is not known how the release would come to read these files at all."""
        return files.speculators and not files.has("model_type")

    def tables(self, files: PairFiles) -> Iterator[Fact]:
        """Embedding, head and their scalars."""
        if self.foreign(files):
            return
        if files.native.family == "eagle3":
            yield from _eagle_tables(files)
            return
        why = "embedding and head are the target's; own ones are skipped without a word"
        grave: Severity = "note" if files.native.get("head.vocabulary_map") == "none" else "error"
        yield Fact("embedding.source", "target", why, _MODEL, severity="note")
        yield Fact("head.source", "target", why, _MODEL, severity=grave)
        yield Fact("head.vocabulary_map", "none", "there is no d2t for block drafters", _MODEL)
        yield Fact("head.vocabulary", files.spec.vocab_size, "there is no d2t for block drafters", _MODEL)
        yield Fact(
            "head.softcap", None, "the target's softcap is not applied to drafts", _MODEL, severity="warning"
        )
        yield Fact("head.multiplier", 1.0, "output_multiplier is read for DFlash 2 only", _MODEL)
        why = "the target's embedding module is called, input_embedding_scale is not read"
        scale, trained = files.spec.embedding_scale, files.native.get("embedding.scale")
        if trained is not None and abs(trained - scale) < 1e-2 * scale:
            scale = trained  # modules hold the factor in bfloat16
        yield Fact("embedding.scale", scale, why, "sglang dflash_worker_v2.py")

    def chain(self, files: PairFiles) -> Iterator[Fact]:
        if files.native.family == "eagle3" and not self.norms:
            why = "norm_before_fc is not read before 0.5.17"
            yield Fact("fusion.concat_norm", False, why, _EAGLE, fix="0.5.17 or newer")
        if files.native.family == "eagle3":
            why = "norm_before_residual is not read: the residual is fc's output"
            yield Fact("chain.norm_before_residual", False, why, _EAGLE, "1.03-1.10 of 5.08 on tiny/eagle3")

    def _dated(self, rule: Rule, files: PairFiles) -> Iterator[Fact | Refusal | Hazard]:
        """What a rule finds, with the release in its references."""
        for found in rule(files):
            dated = found.reference.replace("sglang ", f"sglang {self.version} ", 1)
            yield replace(found, reference=dated)

    def engine(self) -> Engine:
        """The release as an engine."""
        rules = (
            self.refusals,
            self.taps,
            self.slots_of,
            self.attention,
            self.rope,
            self.tables,
            self.chain,
        )
        return Engine(
            EngineId("sglang", self.version),
            "source of the wheel",
            tuple(partial(self._dated, rule) for rule in rules),
            Deployment(runner="sglang", prefix_cache=True, kv_layout="paged"),
        )


def _formula(files: PairFiles) -> tuple[int, ...]:
    count, layers = files.layers, files.spec.layers
    if count <= 1 or layers < 4:
        return (layers // 2,)
    return tuple(sorted({round(1 + i * (layers - 4) / (count - 1)) for i in range(count)}))


def _eagle_taps(files: PairFiles, norms: bool) -> Iterator[Fact]:
    """`norms`: the release is 0.5.17 or newer, which reads more of EAGLE-3's keys."""
    ids = files.keys.get("eagle_config/eagle_aux_hidden_state_layer_ids", INTEGERS)
    layers = files.spec.layers
    if ids:
        why = "eagle_config's ids are outputs of layers, captured at the entry of the next"
        raw = files.spec.model_type.startswith(_RAW_UNLESS_ONE) and ids[0] != 1
        raw = raw or (norms and files.spec.model_type == "gpt_oss" and max(ids) == layers)
        taps = tuple(sorted({i - 1 if raw else i for i in ids if raw or i < layers}))
        fix = "write outputs of layers into eagle_config (entries for vLLM stand at the top level)"
        yield Fact("taps.layers", taps, why, _AUX, "-0.10 accepted (sglang#25454)", fix)
    else:
        why = "ids at the top level are not read: it captures at the entries 2, N//2, N-3"
        taps = tuple(sorted({1, layers // 2 - 1, layers - 4}))
        fix = "write the ids, as outputs of layers, into eagle_config"
        yield Fact(
            "taps.layers", taps, why, _AUX, "0.00 instead of 0.47 (tokenspeed#526, the same default)", fix
        )


def _eagle_tables(files: PairFiles) -> Iterator[Fact]:
    why = "the embedding is always the target's"
    yield Fact("embedding.source", "target", why, "sglang eagle_worker_v2.py", severity="note")
    if files.has("draft_vocab_size"):
        why = "draft_vocab_size is declared, so it builds a head of its own, filled or not"
        cost = "accept len 1.00 where the checkpoint ships no head (sglang#27908)"
        yield Fact("head.source", "own", why, _EAGLE, cost, "remove draft_vocab_size, or ship lm_head.weight")
    else:
        yield Fact("head.source", "target", "without draft_vocab_size the head is the target's", _EAGLE)


def _layer_refusals(files: PairFiles) -> Iterator[Refusal]:
    taps = files.native.tuple_of("taps.layers")
    where = "draft/config.json#/target_layer_ids"
    if files.native.family == "eagle3" or files.embedded:
        return
    if -1 in taps:
        yield Refusal("DFLASH target_layer_ids contains an out-of-range layer id (-1)", where, _DFLASH)
    if files.spec.layers - 1 in taps and not files.spec.model_type.startswith(_BEFORE_NORM):
        why = (
            f"a tap of the last layer is never captured on {files.spec.model_type}: fc gets too few features"
        )
        yield Refusal(why, where, _AUX, "a drafter that does not tap the last layer")


def _head_refusals(files: PairFiles) -> Iterator[Refusal]:
    keys = files.keys
    rank = keys.get("markov_rank", INTEGER)
    nested = keys.get("dspark_config", OBJECT) is not None or keys.has("dflash_config")
    if rank is None and nested and files.native.get("markov.rank"):
        why = "the model reads markov_rank at the top level only and stops with got markov_rank=0"
        yield Refusal(
            why, "draft/config.json#/markov_rank", _DSPARK, "write the heads' keys at the top level"
        )
    elif rank and keys.get("markov_head_type", TEXT) is None:
        why = "DSpark requires markov_head_type when markov_rank > 0, got None"
        yield Refusal(why, "draft/config.json#/markov_head_type", _DSPARK, "state markov_head_type")
    if files.native.get("head.vocabulary_map") not in (None, "none"):
        why = "the Markov tables are read with a row per target id, and this drafter scores fewer"
        yield Refusal(why, "draft/config.json#/draft_vocab_size", "sglang models/dspark.py")


SGLANG = tuple(
    release.engine()
    for release in (
        _Release("0.5.16", slots=False, causal="none", partial=False, norms=False, assistant=False),
        _Release("0.5.17", slots=False, causal="full", partial=False, assistant=False),
        _Release("0.5.18", slots=False, causal="both", partial=False),
        _Release("0.5.19", slots=True, causal="both", partial=False),
        _Release("0.5.23", slots=True, causal="both", partial=True),
    )
)
"""Releases, older ones first."""
