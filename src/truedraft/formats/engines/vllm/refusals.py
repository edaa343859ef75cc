"""What a release does not run, with the message that it stops with."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import BOOLEAN, INTEGER, INTEGERS, OBJECT, TEXT
from truedraft.formats.engines._types import PairFiles, Refusal
from truedraft.formats.engines.vllm._release import DFLASH, EAGLE3, SINCE, Release, method
from truedraft.formats.engines.vllm.taps import TOP

_USE_V2 = "VLLM_USE_V2_MODEL_RUNNER=1"
_ARCHITECTURES = "draft/config.json#/architectures"
_CONFIG = "config/vllm.py"


def refusals(release: Release, files: PairFiles) -> Iterator[Refusal]:
    """All reasons why the release does not run the pair."""
    kind = method(files)
    yield from _methods(release, files, kind)
    if kind in ("dflash", "dspark") and not files.embedded:
        yield from _windows(release, files)
        yield from _mask(release, files)
    if kind == "dflash":
        yield from _anchor_dflash(release, files)
    if kind == "dspark" and release.since(26):
        yield from _dspark(release, files)
    yield from _rope(release, files)
    if kind == "eagle3":
        yield from _eagle3(release, files)


def _methods(release: Release, files: PairFiles, kind: str) -> Iterator[Refusal]:
    if release.fork:
        return
    first = SINCE.get(files.native.dialect)
    if first is not None and not release.since(first):
        why = "this release does not know the drafter's architecture"
        yield Refusal(why, _ARCHITECTURES, release.at("models/registry.py"), f"0.{first}.0 or newer")
    if kind == "dspark" and not release.since(26):
        why = "this release has no DSpark"
        yield Refusal(why, _ARCHITECTURES, release.at("config/speculative.py"), "0.26.0 or newer")
    elif kind == "dspark" and release.v1:
        why = "Model Runner V1 does not support: dspark speculative decoding"
        if not release.since(30):
            why = "V1 has no DSpark proposer (these releases choose V2 unless the variable says 0)"
        yield Refusal(why, _ARCHITECTURES, release.at(_CONFIG), _USE_V2)
    elif kind == "dflash" and not release.v1 and not release.since(24):
        who = "Model Runner V2" if release.since(23) else "VLLM_USE_V2_MODEL_RUNNER"
        why = f"{who} does not yet support: speculative method 'dflash'"
        yield Refusal(why, _ARCHITECTURES, release.at(_CONFIG), "the V1 runner, or 0.24.0 or newer")


def _windows(release: Release, files: PairFiles) -> Iterator[Refusal]:
    if not release.since(26):
        return
    sliding = files.sliding() or ()
    if release.v1 and any(sliding) and not all(sliding):
        why = "DFlash drafters with mixed sliding/full attention require the V2 model runner"
        if release.since(30):
            why = "Model Runner V1 does not support: mixed sliding/full dflash drafts"
        yield Refusal(why, files.decoder.where("layer_types"), release.at(DFLASH), _USE_V2)
    own = files.decoder.get("dflash_config/swa_window_size", INTEGER)
    if any(sliding) and own is None and not _window_survives(files):
        why = "DFlash sliding attention requires a window size: Qwen3Config drops sliding_window here"
        fix = 'state "use_sliding_window": true'
        yield Refusal(why, files.decoder.where("use_sliding_window"), release.at(DFLASH), fix)


def _window_survives(files: PairFiles) -> bool:
    """Hugging Face's Qwen3Config sets `sliding_window` to None unless `use_sliding_window` is true."""
    keys = files.decoder
    if keys.get("sliding_window", INTEGER) is None:
        return False
    through_qwen3 = not files.speculators and files.keys.get("model_type", TEXT) == "qwen3"
    return not through_qwen3 or _uses(files)


def _uses(files: PairFiles) -> bool:
    return files.draft.config.get("use_sliding_window") is True


def _mask(release: Release, files: PairFiles) -> Iterator[Refusal]:
    nested = files.keys.get("dflash_config/mask_token_id", INTEGER)
    flat = files.keys.get("mask_token_id", INTEGER)
    reads_flat = release.since(28) or (release.since(26) and not release.v1) or files.speculators
    if nested is None and flat is not None and not reads_flat:
        why = "it finds no mask token: mask_token_id is read below dflash_config only"
        at = release.at("v1/spec_decode/llm_base_proposer.py")
        yield Refusal(why, files.keys.where("mask_token_id"), at, "nest mask_token_id in dflash_config")


def _anchor_dflash(release: Release, files: PairFiles) -> Iterator[Refusal]:
    pointers = ("sample_from_anchor",) if files.speculators else ("dflash_config/sample_from_anchor",)
    if not release.v1 and release.since(28) and any(files.keys.get(p, BOOLEAN) for p in pointers):
        why = "sample_from_anchor=True is not supported for DFlash"
        at = release.at("v1/worker/gpu/spec_decode/dflash/speculator.py")
        yield Refusal(why, files.keys.where(pointers[0]), at, "an engine that predicts with slot 0")


def _raw_dspark(release: Release, files: PairFiles) -> Iterator[Refusal]:
    """What stops DSpark checkpoints that are in no other format than their trainer's."""
    keys, taps = files.keys, files.native.tuple_of("taps.layers")
    model = release.at("models/qwen3_dspark.py")
    if not files.speculators and keys.get("markov_rank", INTEGER) is None:
        why = "markov_rank is read at the top level only: AttributeError"
        fix = "write the heads' keys at the top level"
        yield Refusal(why, keys.where("markov_rank"), model, fix)
    named = files.draft.config.get("architectures") == ["DSparkDraftModel"]
    if named and not files.speculators and not release.since(30):
        why = "DSparkDraftModel is taken for the drafter inside DeepSeek-V4"
        at = release.at("config/speculative.py")
        yield Refusal(why, _ARCHITECTURES, at, '"architectures": ["Qwen3DSparkModel"]')
    nested = keys.get("dflash_config/target_layer_ids", INTEGERS)
    if release.version == (0, 26) and nested is None and len(taps) != files.layers:
        why = f"fc is built for as many taps as there are draft layers, {files.layers}, and gets {len(taps)}"
        yield Refusal(why, keys.where("target_layer_ids"), release.at(DFLASH), "0.28.0 or newer")


def _dspark(release: Release, files: PairFiles) -> Iterator[Refusal]:
    native = files.native
    if not files.embedded:
        yield from _raw_dspark(release, files)
    if native.get("markov.kind") in ("gated", "rnn"):
        why = "the vanilla Markov head only: the loader finds no module for the other kinds' tensors"
        yield Refusal(why, files.keys.where("markov_head_type"), release.at("models/qwen3_dspark.py"))
    asked, block = files.asked, files.keys.get("dspark_block_size", INTEGER)
    embedded = files.embedded and not release.fork
    modules = files.keys.get("num_nextn_predict_layers", INTEGER)
    wanted = asked if asked is not None else modules
    if embedded and release.version == (0, 26) and wanted and block is not None and wanted < block:
        why = f"DSpark requires num_speculative_tokens >= dspark_block_size ({block}), found {wanted}"
        where = files.keys.where("dspark_block_size")
        yield Refusal(why, where, release.at("config/speculative.py"), f'"num_speculative_tokens": {block}')
    if embedded and not release.since(32) and modules and wanted and wanted > modules and wanted % modules:
        why = f"num_speculative_tokens:{wanted} must be divisible by n_predict={modules}"
        where = files.keys.where("num_nextn_predict_layers")
        yield Refusal(why, where, release.at("config/speculative.py"), '"num_nextn_predict_layers": 1')


def _rope(release: Release, files: PairFiles) -> Iterator[Refusal]:
    keys = files.decoder
    nested = ("rope_parameters/full_attention", "rope_parameters/sliding_attention")
    if any(keys.get(pointer, OBJECT) is not None for pointer in nested) and not files.embedded:
        why = "rope_parameters per kind of layer: TypeError: unhashable type: 'dict'"
        fix = "one rope_parameters for all layers, if they agree"
        yield Refusal(why, keys.where("rope_parameters"), release.at("rotary_embedding/__init__.py"), fix)
    sections = ("rope_parameters/mrope_section", "rope_scaling/mrope_section")
    if release.v1 and any(keys.get(pointer, INTEGERS) is not None for pointer in sections):
        why = "Speculative Decoding with draft models or parallel drafting does not support M-RoPE yet"
        if files.native.family in ("dflash", "dspark"):
            at = release.at("v1/spec_decode/llm_base_proposer.py")
            fix = "remove mrope_section from the draft config"
            yield Refusal(why, keys.where("rope_parameters/mrope_section"), at, fix)


def _eagle3(release: Release, files: PairFiles) -> Iterator[Refusal]:
    """`fc` is built for three taps unless these keys say otherwise, whatever is captured."""
    keys = files.keys
    top, nested = keys.get(TOP, INTEGERS), keys.get(f"eagle_config/{TOP}", INTEGERS)
    built = _built_taps(release, files, top, nested)
    captured = len(set(top or (nested if release.v1 and release.since(22) else None) or ())) or 3
    if captured != built:
        why = f"fc is built for {built} taps and gets {captured}"
        key = files.decoder.where("num_aux_hidden_states")
        fix = f'"num_aux_hidden_states": {captured} in {key.partition("#/")[2]}'
        if not release.since(22):
            fix = f"0.22.1 or newer with {fix}"
        yield Refusal(why, key, release.at(EAGLE3), fix)


def _built_taps(
    release: Release, files: PairFiles, top: tuple[int, ...] | None, nested: tuple[int, ...] | None
) -> int:
    """Taps that `fc` is built for; converted configs pass their decoder's keys on, and no others."""
    stated = files.decoder.get("num_aux_hidden_states", INTEGER)
    if not release.since(22):
        return 3
    if release.since(24) and files.decoder.get("model_type", TEXT) == "qwen3":
        counts = (files.decoder.get("num_aux_layers", INTEGER), stated, len(top or nested or ()))
        return next((count for count in counts if count), 3)
    return stated or len(nested or ()) or 3
