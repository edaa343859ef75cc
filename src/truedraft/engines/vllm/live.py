"""Reads vLLM's live objects after `load_model`. With `live_layers.py` the only module that touches them to
read.

vLLM has no stubs where truedraft is checked, so its objects are `Any`: they come in by `wrap.py`, are read
here, written in `draft_config.py` and `mend_live.py`, and go no further. Conventions are those of 0.32 (paths
below `vllm/`); each function names what it follows.
"""

from __future__ import annotations

from typing import Any, Literal

from truedraft.engines.vllm.facts import LiveEngine, LiveTable
from truedraft.engines.vllm.live_layers import (
    context_rope,
    k_norm_error,
    read_heads,
    read_layer,
    read_norms,
)

GENERIC = frozenset({"DFlashQwen3ForCausalLM", "Eagle3LlamaForCausalLM"})
"""Draft models whose layers are read; of others only taps, blocks, tables and parameters are."""


def drafter_of(runner: Any) -> Any:
    """The object that proposes, or `None`: V1 `v1/worker/gpu_model_runner.py` calls it `drafter`, V2
    `v1/worker/gpu/model_runner.py` `speculator`. Only the last pipeline stage has one.
    """
    found = getattr(runner, "drafter", None)
    return found if found is not None else getattr(runner, "speculator", None)


def runner_of(runner: Any) -> Literal["v1", "v2"]:
    """Which runner it is, by its module (`v1/worker/gpu/` and `v1/worker/cpu/` are V2's)."""
    names = [cls.__module__ for cls in type(runner).__mro__]
    return "v2" if any(name.startswith("vllm.v1.worker.gpu.") for name in names) else "v1"


def read_engine(vllm_config: Any, runner: Any, version: str) -> LiveEngine | None:
    """Everything about the drafter that decides its drafts; `None` where this process has no drafter."""
    drafter = drafter_of(runner)
    model = getattr(drafter, "model", None)
    if model is None:
        return None
    which = runner_of(runner)
    inner, target = getattr(model, "model", model), target_of(runner)
    decoder = decoder_of(target)
    entries = getattr(decoder, "aux_hidden_state_layers", None)
    proposals = proposals_of(drafter)
    names = tuple(cls.__name__ for cls in type(model).__mro__)
    generic = bool(GENERIC & set(names))
    layers = tuple(read_layer(layer.self_attn) for layer in inner.layers) if generic else ()
    processor = getattr(model, "logits_processor", None)
    return LiveEngine(
        version=version,
        runner=which,
        method=str(vllm_config.speculative_config.method),
        model=names,
        proposals=proposals,
        width=width_of(drafter, which, proposals),
        first_slot_predicts=bool(getattr(drafter, "sample_from_anchor", False)),
        mask_token_id=_mask(drafter),
        taps=None if entries is None else tuple(int(entry) for entry in entries),
        plain_taps=any(cls.__name__ == "EagleModelMixin" for cls in type(decoder).__mro__),
        target_layers=int(vllm_config.model_config.get_total_num_hidden_layers()),
        fused=_fused(inner, vllm_config),
        layers=layers,
        causal=_causal(drafter, model, which),
        context_rope=context_rope(inner, layers),
        embedding=_table(inner, model, "embed_tokens", _embedding_of(decoder)),
        head=_table(model, model, "lm_head", head_of(target)),
        vocabulary_map=getattr(model, "draft_id_to_target_id", None) is not None,
        multiplier=None if processor is None else float(processor.scale),
        softcap=None if processor is None or processor.soft_cap is None else float(processor.soft_cap),
        norms=read_norms(inner) if generic else None,
        heads=read_heads(inner) if generic else None,
        hidden_size=_size(inner),
        parameters=_parameters(model, target),
        block_drop=_block_drop(vllm_config),
        k_norm_error=k_norm_error(inner) if generic else None,
    )


def target_of(runner: Any) -> Any:
    """The target's language model; multimodal ones wrap it (`interfaces.py` `SupportsEagle3`)."""
    get = getattr(runner, "get_model", None)
    model = get() if callable(get) else runner.model
    if hasattr(model, "get_language_model"):
        return model.get_language_model()
    return getattr(model, "language_model", model)


def decoder_of(target: Any) -> Any:
    """The module that captures states: `EagleModelMixin` (`interfaces.py`)."""
    return getattr(target, "model", target)


def head_of(target: Any) -> Any:
    """The target's head (`v1/worker/gpu/spec_decode/eagle/utils.py` `get_target_lm_head`)."""
    return getattr(target, "lm_head", None)


def _embedding_of(decoder: Any) -> Any:
    return getattr(decoder, "embed_tokens", None) or getattr(decoder, "embedding", None)


def proposals_of(drafter: Any) -> int:
    """K as the drafter has it: V1 `SpecDecodeBaseProposer`, V2 `DraftModelSpeculator`."""
    return int(getattr(drafter, "num_speculative_tokens", None) or drafter.num_speculative_steps)


def width_of(drafter: Any, which: str, proposals: int) -> int | None:
    """Query rows: V2 `DFlashSpeculator.num_query_per_req`, V1 1 + K (`DFlashProposer`)."""
    if which == "v2":
        return int(drafter.num_query_per_req) if hasattr(drafter, "sample_from_anchor") else None
    return proposals + 1 if hasattr(drafter, "dflash_causal") else None


def _mask(drafter: Any) -> int | None:
    """V1 `llm_base_proposer.py` `_init_parallel_drafting_params`, V2 `get_parallel_drafting_token_id`."""
    found = getattr(drafter, "parallel_drafting_token_id", None)
    return None if found is None or not getattr(drafter, "parallel_drafting", True) else int(found)


def _fused(inner: Any, vllm_config: Any) -> int | None:
    """Taps that `fc` is built for: its input over the width of the target."""
    size = getattr(getattr(inner, "fc", None), "input_size", None)
    width = int(vllm_config.model_config.get_hidden_size())
    return None if size is None else int(size) // width


def _causal(drafter: Any, model: Any, which: str) -> tuple[bool, ...] | None:
    """V1 has one flag for all layers (`DFlashProposer.dflash_causal`), V2 one per layer
    (`DFlashSpeculator.set_attn` asks `get_draft_attn_causal`).
    """
    get = getattr(model, "get_draft_attn_causal", None)
    if get is None:
        return None
    flags = tuple(bool(flag) for flag in get())
    one = getattr(drafter, "dflash_causal", None)
    return flags if which == "v2" or one is None else (bool(one),) * len(flags)


def _table(owner: Any, model: Any, name: str, target: Any) -> LiveTable | None:
    """`llm_base_proposer.py` `_maybe_share_embeddings`, `_maybe_share_lm_head`; V2 `eagle/utils.py`."""
    weight = getattr(getattr(owner, name, None), "weight", None)
    if weight is None:
        return None
    theirs = getattr(target, "weight", None)
    shared = None if theirs is None else _storage(weight) == _storage(theirs)
    module = getattr(owner, name)
    rows = getattr(module, "org_vocab_size", None) or weight.shape[0]
    return LiveTable(shared, bool(getattr(model, f"has_own_{name}", False)), int(rows))


def _storage(weight: Any) -> Any:
    pointer = getattr(weight, "data_ptr", None)
    return pointer() if callable(pointer) else id(weight)


def _size(inner: Any) -> int | None:
    weight = getattr(getattr(inner, "norm", None), "weight", None)
    return None if weight is None else int(weight.shape[0])


def _parameters(model: Any, target: Any) -> tuple[str, ...]:
    """Names of the drafter's parameters whose storage is not the target's; without the mask embedding that
    no checkpoint needs (`qwen3_dflash.py` `has_separate_mask_embedding`). Weights that a backend has packed
    are left empty, all at address 0.
    """
    weights = [weight for _, weight in target.named_parameters()]
    theirs = {id(weight) for weight in weights} | {_storage(weight) for weight in weights if weight.numel()}
    names = [
        name
        for name, weight in model.named_parameters()
        if not {id(weight), _storage(weight) if weight.numel() else id(weight)} & theirs
    ]
    unused = not getattr(getattr(model, "model", None), "has_separate_mask_embedding", True)
    return tuple(name for name in names if not (unused and name.endswith("mask_embedding")))


def _block_drop(vllm_config: Any) -> bool:
    """`config/speculative.py` `use_eagle_block_drop`, with the prefix cache on."""
    cached = bool(getattr(vllm_config.cache_config, "enable_prefix_caching", False))
    drop = getattr(vllm_config.speculative_config, "use_eagle_block_drop", None)
    return cached and callable(drop) and bool(drop())
