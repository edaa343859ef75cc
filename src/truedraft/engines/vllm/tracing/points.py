"""Where vLLM 0.32 shows what a drafter is given and makes of it; paths below `vllm/`.

Generic block drafters (`model_executor/models/qwen3_dflash.py`, `qwen3_dspark.py`) on both runners, generic
EAGLE-3 (`llama_eagle3.py`) on V1. Only the decorated inner model is compiled: its layers are listened to
where they run eagerly, and left alone elsewhere, as a listener would become part of the graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from truedraft.engines.vllm.live import drafter_of, runner_of
from truedraft.engines.vllm.tracing.patches import Patches
from truedraft.engines.vllm.tracing.recorder import Recorder


def listen(runner: Any, recorder: Recorder, patches: Patches, *, layers: bool) -> None:
    """Have the recorder hear of every round of this runner's drafter. `layers`: also inside the model.

    Until the first round only `propose` is listened to: warming up, compiling and capturing meet vLLM as it
    is.
    """
    drafter = drafter_of(runner)
    _rounds(runner, drafter, recorder, patches, lambda: _inside(runner, drafter, recorder, patches, layers))


def _inside(runner: Any, drafter: Any, recorder: Recorder, patches: Patches, layers: bool) -> None:
    model = drafter.model
    _features(model, recorder, patches)
    _calls(model, recorder, patches)
    if layers:
        for number, layer in enumerate(model.model.layers):
            _layer(layer, number, recorder, patches)
    if runner_of(runner) == "v1" and not hasattr(model, "precompute_and_store_context_kv"):
        _sampled_rows(drafter, recorder, patches)


def _rounds(
    runner: Any, drafter: Any, recorder: Recorder, patches: Patches, at_first: Callable[[], None]
) -> None:
    """`v1/spec_decode/llm_base_proposer.py` and `v1/worker/gpu/spec_decode/*/speculator.py`: `propose`."""
    signature, waiting = inspect.signature(drafter.propose), [at_first]
    begin = _begin_v1 if runner_of(runner) == "v1" else _begin_v2

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not kwargs.get("dummy_run"):
            if waiting:
                waiting.pop()()
            begin(runner, signature.bind(*args, **kwargs).arguments, recorder)

    def after(_args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        recorder.end(result)

    patches.listen(drafter, "propose", before=before, after=after)


def _begin_v1(runner: Any, given: dict[str, Any], recorder: Recorder) -> None:
    starts = given["common_attn_metadata"].query_start_loc
    names = [str(name) for name in runner.input_batch.req_ids[: len(starts) - 1]]
    prompts = [getattr(runner.requests.get(name), "prompt_token_ids", None) for name in names]
    recorder.begin(names, [None if prompt is None else [int(t) for t in prompt] for prompt in prompts])
    recorder.add(starts, "starts")
    recorder.add(given.get("num_rejected_tokens_gpu"), "rejected")
    recorder.add(given["target_token_ids"], "tokens")
    recorder.add(given["target_positions"], "positions")


def _begin_v2(_runner: Any, given: dict[str, Any], recorder: Recorder) -> None:
    batch = given["input_batch"]
    names = [str(name) for name in batch.req_ids[: batch.num_reqs]]
    recorder.begin(names, [None] * len(names))
    recorder.add(batch.query_start_loc[: batch.num_reqs + 1], "starts")
    recorder.add(given["num_rejected"][: batch.num_reqs], "rejected")
    recorder.add(batch.input_ids[: batch.num_tokens], "tokens")
    recorder.add(batch.positions[: batch.num_tokens], "positions")


def _features(model: Any, recorder: Recorder, patches: Patches) -> None:
    """From the target's states to context rows in the draft layers' caches."""
    layers = {id(layer.self_attn.attn): number for number, layer in enumerate(model.model.layers)}
    writing = [False]

    def combined(args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        recorder.add(args[0], "taps")
        recorder.add(result, "features")

    def begin(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        writing[0] = True
        recorder.add(args[1], "context", "positions")

    def end(_args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        writing[0] = False

    def stored(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        attention, keys, values, _cache, slots = args[:5]
        if writing[0] and id(attention) in layers:
            number = layers[id(attention)]
            recorder.add(keys, "context", "keys", number)
            recorder.add(values, "context", "values", number)
            recorder.add(slots >= 0, "context", "written", number)

    def headed(ids: str) -> Any:
        return lambda args, _kwargs, result: recorder.add_head(args[0], result, ids)

    patches.listen(model, "combine_hidden_states", after=combined)
    if patches.listen(model, "precompute_and_store_context_kv", before=begin, after=end):
        for layer in model.model.layers:
            patches.listen(layer.self_attn.attn.impl, "do_kv_cache_update", before=stored)
    patches.listen(model, "compute_logits", after=headed("target"))
    patches.listen(model, "compute_draft_logits", after=headed("draft"))


def _calls(model: Any, recorder: Recorder, patches: Patches) -> None:
    """What the draft model is given in each call, and what it gives back."""

    def call() -> int:
        return recorder.call("calls")

    def entered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(("input_ids", "positions", "hidden_states"), args, strict=False)) | kwargs
        number = recorder.next_call("calls")
        recorder.add(given.get("input_ids"), "calls", number, "ids")
        recorder.add(given.get("positions"), "calls", number, "positions")
        if hasattr(model.model, "norm_output"):  # a chain: the third argument is no embedding
            recorder.add(given.get("hidden_states"), "calls", number, "features")

    def left(_args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        hidden, fed = result if isinstance(result, tuple) else (result, None)
        recorder.add(hidden, "calls", call(), "hidden")
        recorder.add(fed, "calls", call(), "fed")

    patches.listen(model, "forward", before=entered, after=left)


def _layer(layer: Any, number: int, recorder: Recorder, patches: Patches) -> None:
    """One layer of the draft model. vLLM norms in place, so everything is copied before it goes on."""
    attention = layer.self_attn.attn

    def heads(tensor: Any) -> Any:
        size = int(layer.self_attn.head_dim)
        return tensor.reshape(tensor.shape[0], -1, size)

    def entered(_args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if number == 0:
            embedded = kwargs.get("embeds", kwargs.get("hidden_states"))
            recorder.add(embedded, "calls", recorder.call("calls"), "embedded")

    def left(_args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        hidden, residual = result
        recorder.add(hidden + residual, "calls", recorder.call("calls"), "layer", number)

    def attending(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        for part, tensor in zip(("query", "key", "value"), args, strict=False):
            recorder.add(heads(tensor), "calls", recorder.call("calls"), part, number)

    def attended(_args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        recorder.add(heads(result), "calls", recorder.call("calls"), "attention", number)

    patches.listen(layer, "forward", before=entered, after=left)
    patches.listen(attention, "forward", before=attending, after=attended)


def _sampled_rows(drafter: Any, recorder: Recorder, patches: Patches) -> None:
    """A chain's first call runs all of the target's rows and drafts from one of each request."""

    def prepared(_args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        recorder.add(result[1], "calls", 0, "sampled")

    patches.listen(drafter, "set_inputs_first_pass", after=prepared)
