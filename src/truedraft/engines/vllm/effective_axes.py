"""The axes of a live engine, each with the place in vLLM 0.32 that decides it."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.contract import Contract, Value
from truedraft.engines.vllm.effective_rope import ropes
from truedraft.engines.vllm.facts import LiveEngine, LiveTable
from truedraft.engines.vllm.seen import Seen, Severity

_DFLASH = "model_executor/models/qwen3_dflash.py"
_DSPARK = "model_executor/models/qwen3_dspark.py"
_EAGLE3 = "model_executor/models/llama_eagle3.py"
_CAPTURE = "model_executor/models/interfaces.py EagleModelMixin"
_V1 = "v1/spec_decode/dflash.py set_inputs_first_pass"
_V2 = "v1/worker/gpu/spec_decode/dflash/speculator.py _prepare_dflash_inputs_kernel"
_SHARING = {
    "v1": "v1/spec_decode/llm_base_proposer.py load_model",
    "v2": "v1/worker/gpu/spec_decode/eagle/utils.py",
}


def seen_axes(native: Contract, live: LiveEngine) -> Iterator[Seen]:
    """Every axis that was seen."""
    yield from _taps(live)
    if live.width is not None:
        yield from _block(native, live)
    if live.block_drafter or live.chain_drafter:
        yield from _layers(native, live)
        yield from ropes(native, live)
        yield from _tables(native, live)
    if live.block_drafter:
        yield from _fusion(live)
    if live.norms is not None and live.chain_drafter:
        yield from _chain(live)
    if live.heads is not None and live.block_drafter:
        yield from _sequence_heads(live)


def _taps(live: LiveEngine) -> Iterator[Seen]:
    if not live.taps:
        return
    taken = tuple(entry - 1 for entry in live.taps if 0 <= entry <= live.target_layers)
    entries = ", ".join(map(str, live.taps))
    why = f"the loaded target captures at the entries {entries}; an entry L is the output of layer L-1"
    if live.fused is not None and live.fused != len(taken):
        why += f"; fc takes {live.fused} of them, so the first round will fail"
    yield Seen("taps.layers", taken, why, _CAPTURE)
    if live.plain_taps:
        why = "hidden + residual, before the final norm"
        yield Seen("taps.state", ("residual",) * len(taken), why, _CAPTURE)


def _block(native: Contract, live: LiveEngine) -> Iterator[Seen]:
    kernel = _V1 if live.runner == "v1" else _V2
    why = f"num_speculative_tokens {live.proposals} makes {live.width} query rows; a block of another width"
    why += " is another input for every slot"
    trained = native.get("block.proposals")
    graver = trained is not None and live.proposals > trained
    severity: Severity = "error" if graver else "warning"
    yield Seen("block.width", live.width, why, kernel, severity)
    yield Seen("block.proposals", live.proposals, why, kernel, severity)
    first = "predicts_next" if live.first_slot_predicts else "unused"
    yield Seen("block.first_slot", first, f"sample_from_anchor is {live.first_slot_predicts}", kernel)
    yield Seen("block.anchor_fill", "token", "query 0 holds the bonus token", kernel)
    yield Seen("block.position_offset", 0, "query 0 stands behind the last accepted row", kernel)
    yield Seen("context.end", "before_anchor", "context rows end at the last accepted row", kernel)
    if live.mask_token_id is not None:
        yield Seen("block.mask_token_id", live.mask_token_id, "parallel_drafting_token_id", kernel)


def _layers(native: Contract, live: LiveEngine) -> Iterator[Seen]:
    layers, file = live.layers, _DFLASH if live.block_drafter else _EAGLE3
    if not layers:
        return
    windows = tuple(layer.window for layer in layers)
    yield Seen("attention.window", windows, "the sliding window of each draft layer's Attention", file)
    rules = native.tuple_of("attention.window_rule")
    if len(rules) == len(layers):
        rule = tuple("query" if window else old for window, old in zip(windows, rules, strict=True))
        why = "a key is visible iff q-k < W, for each query"
        yield Seen("attention.window_rule", rule, why, file, "warning")
    if live.causal is not None:
        why = "one flag for all layers (dflash_causal)" if live.runner == "v1" else "get_draft_attn_causal"
        yield Seen("attention.causal", live.causal, why, _V1 if live.runner == "v1" else file)
    yield Seen("attention.scale", tuple(layer.scale for layer in layers), "Attention.scale", file)
    yield Seen("attention.sinks", tuple(layer.sinks for layer in layers), "attention_sink_bias", file)
    yield Seen("backbone.layers", len(layers), "layers of the loaded drafter", file)
    sizes: dict[str, set[Value]] = {
        "backbone.heads": {layer.heads for layer in layers},
        "backbone.kv_heads": {layer.kv_heads for layer in layers},
        "backbone.head_dim": {layer.head_dim for layer in layers},
        "backbone.qk_norm": {layer.qk_norm for layer in layers},
    }
    if all(layer.norm_eps is not None for layer in layers):
        sizes["backbone.norm_eps"] = {layer.norm_eps for layer in layers}
    for axis, found in sizes.items():
        if len(found) == 1:
            yield Seen(axis, found.pop(), "the loaded draft layers", file)
    if live.hidden_size is not None:
        yield Seen("backbone.hidden_size", live.hidden_size, "the loaded final norm", file)


def _fusion(live: LiveEngine) -> Iterator[Seen]:
    at = f"{_DFLASH} combine_hidden_states"
    yield Seen("fusion.fc", live.fused is not None, "fc(taps)", at)
    yield Seen("fusion.tap_norm", False, "fc(taps), no norm before it", at)
    yield Seen("fusion.concat_norm", False, "fc(taps), no norm before it", at)
    yield Seen("fusion.output_norm", True, "hidden_norm on context rows", f"{_DFLASH} _project_context_kv")
    yield Seen("fusion.input_norm_on_context", False, "hidden_norm alone", f"{_DFLASH} _project_context_kv")


def _tables(native: Contract, live: LiveEngine) -> Iterator[Seen]:
    file = _DFLASH if live.block_drafter else _EAGLE3
    for axis, table in (("embedding.source", live.embedding), ("head.source", live.head)):
        source = _source(native, axis, table)
        if source is not None:
            same = "" if table is not None and table.shared else " not"
            yield Seen(axis, source, f"its storage is{same} the target's", _SHARING[live.runner])
    yield Seen("embedding.scale", 1.0, "raw rows of the table", file)
    kind = "offset" if live.vocabulary_map else "none"
    yield Seen("head.vocabulary_map", kind, "draft_id_to_target_id", f"{file} compute_logits")
    if live.head is not None:
        yield Seen("head.vocabulary", live.head.rows, "rows of the loaded head", file)
    if live.multiplier is not None:
        yield Seen("head.multiplier", live.multiplier, "LogitsProcessor.scale", file)
        yield Seen("head.softcap", live.softcap, "LogitsProcessor.soft_cap", file, "warning")


def _source(native: Contract, axis: str, table: LiveTable | None) -> str | None:
    """Whose table it is. A table of the checkpoint's own that equals the target's is dropped by the loader,
    which changes nothing.
    """
    if table is None or table.shared is None:
        return None
    if table.shared and table.own:
        return str(native.get(axis) or "target")
    return "target" if table.shared else "own"


def _chain(live: LiveEngine) -> Iterator[Seen]:
    assert live.norms is not None
    at = f"{_EAGLE3} combine_hidden_states"
    yield Seen("fusion.fc", live.fused is not None, "fc(taps)", at)
    yield Seen("fusion.tap_norm", live.norms.per_tap, "fc_norm", at)
    yield Seen("fusion.concat_norm", live.norms.before_fc, "norm_before_fc", at)
    before = live.norms.before_residual
    yield Seen("chain.norm_before_residual", before, "norm_before_residual", f"{_EAGLE3} LlamaDecoderLayer")
    feedback = "post_norm" if live.norms.output else "residual"
    yield Seen("chain.feedback", feedback, "norm_output", f"{_EAGLE3} LlamaModel.forward")


def _sequence_heads(live: LiveEngine) -> Iterator[Seen]:
    heads = live.heads
    assert heads is not None
    yield Seen("markov.kind", "vanilla", "DSparkMarkovHead, the only one there is", _DSPARK)
    yield Seen("markov.rank", heads.rank, "markov_w1 of the loaded drafter", _DSPARK)
    previous = "the token drafted before"
    yield Seen(
        "markov.previous", "previous_token", previous, "v1/worker/gpu/spec_decode/dspark/speculator.py"
    )
    if heads.confidence_with_markov is None:
        yield Seen("confidence.input", "none", "no confidence head was loaded", _DSPARK, "note")
        return
    yield Seen("confidence.input", "post_norm", "compute_confidence", _DSPARK, "note")
    yield Seen("confidence.with_markov", heads.confidence_with_markov, "confidence_head", _DSPARK, "note")
    yield Seen("confidence.bias", bool(heads.confidence_bias), "confidence_head.proj", _DSPARK, "note")
