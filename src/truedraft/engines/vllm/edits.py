"""Which edits of the draft config make vLLM 0.32 run an axis as the contract says.

vLLM builds everything from these keys (captured layers, attention backend, KV cache groups, rotary tables,
`fc`), so that an edit before anything is built keeps all of it consistent. An axis that no key can express is
refused. Paths below `vllm/` say where a key is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from truedraft.contract import CHAIN_FAMILIES, Contract, Record, Value, to_json

TAPS = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True)
class Edit:
    """A key of the draft config and its new value; `None` removes an entry."""

    path: str
    value: Any


@dataclass(frozen=True)
class Refused:
    """Why an axis cannot be set."""

    why: str


@dataclass(frozen=True)
class Place:
    """What an edit may ask: the contract, whether the drafter is DSpark to vLLM, and the V2 runner's
    switch (`VLLM_USE_V2_MODEL_RUNNER`), `None` where vLLM chooses.
    """

    native: Contract
    dspark: bool
    v2: bool | None

    @property
    def chain(self) -> bool:
        """Whether the drafter is EAGLE-3."""
        return self.native.family in CHAIN_FAMILIES


Step: TypeAlias = "Edit | Refused"


def steps(axis: str, place: Place) -> Iterator[Step]:
    """The edits for one axis, or the reason why there are none."""
    make = _WRITERS.get(axis)
    if make is None:
        yield Refused("no setting of vLLM expresses it")
    elif place.native.axes[axis].state != "value":
        yield Refused("the contract does not settle it")
    else:
        yield from make(place)


def _taps(place: Place) -> Iterator[Step]:
    """`gpu_model_runner.py` `_get_eagle3_aux_layers_from_config` and `eagle3_utils.py` read this key first,
    as entries of layers; `interfaces.py` sorts them, each once.
    """
    taps = [int(str(tap)) for tap in place.native.tuple_of("taps.layers")]
    if sorted(set(taps)) != taps:
        yield Refused("vLLM concatenates states in the order of layers, each once")
        return
    yield Edit(TAPS, [tap + 1 for tap in taps])
    if place.chain:
        yield Edit("num_aux_hidden_states", len(taps))


def _causal(place: Place) -> Iterator[Step]:
    """`qwen3_dflash.py` `_dflash_layer_causal`: `is_causal`, then `dflash_config.causal`, then the kind of
    layer.
    """
    causal = place.native.tuple_of("attention.causal")
    windows = place.native.tuple_of("attention.window")
    if len(set(causal)) == 1:
        yield Edit("is_causal", causal[0])
    elif causal != tuple(window is not None for window in windows):
        yield Refused("a mixture other than causal sliding layers and bidirectional full ones")
    elif place.v2 is False:
        yield Refused("V1 has one flag for all layers; relaunch with VLLM_USE_V2_MODEL_RUNNER=1")
    else:
        yield Edit("is_causal", None)
        yield Edit("dflash_config/causal", None)


def _window(place: Place) -> Iterator[Step]:
    """`qwen3_dflash.py` `_resolve_layer_attention`; `llama.py` `LlamaAttention` for chains."""
    windows = place.native.tuple_of("attention.window")
    sizes = sorted({int(str(window)) for window in windows if window is not None})
    if len(sizes) > 1:
        yield Refused("vLLM has one window for all sliding layers")
        return
    mixed = bool(sizes) and None in windows
    if mixed and not place.chain and place.v2 is not True:
        yield Refused("sliding and full layers together need VLLM_USE_V2_MODEL_RUNNER=1")
        return
    kinds = ["full_attention" if window is None else "sliding_attention" for window in windows]
    yield Edit("layer_types", kinds)
    if sizes:
        yield Edit("sliding_window", sizes[0])
    if not place.chain:
        yield Edit("dflash_config/use_swa", None)
        yield Edit("dflash_config/swa_window_size", sizes[0] if sizes else None)
        yield from _causal(place)


def _rope(place: Place) -> Iterator[Step]:
    """`rotary_embedding/__init__.py` `get_rope`, one module for all layers."""
    names = ("rope.theta", "rope.rotary_dims", "rope.scaling", "rope.attention_factor")
    settled = [place.native.tuple_of(name) for name in names]
    if any(len(set(values)) != 1 for values in settled):
        yield Refused("vLLM builds one rotary table for all draft layers")
        return
    theta, dims, scaling, factor = (values[0] for values in settled)
    plain: dict[str, Any] = {"rope_type": "default"}
    if isinstance(scaling, Record):
        plain = {key: value for key, value in to_json(scaling).items() if value is not None}
        plain["rope_type"] = plain.pop("kind")
        for key in ("original_max_position_embeddings", "beta_fast", "beta_slow"):
            if isinstance(plain.get(key), float) and plain[key].is_integer():
                plain[key] = int(plain[key])
    if plain["rope_type"] == "yarn":
        plain["attention_factor"] = factor
    elif factor != 1.0:
        yield Refused("vLLM scales cosines and sines with YaRN only")
        return
    plain["rope_theta"] = theta
    head_dim = place.native.get("backbone.head_dim")
    if head_dim and dims != head_dim:
        plain["partial_rotary_factor"] = int(str(dims)) / int(head_dim)
    yield Edit("rope_parameters", plain)


def _layout(place: Place) -> Iterator[Step]:
    """`qwen3_dflash.py` `DFlashQwen3DecoderLayer`; EAGLE-3's layers always rotate halves."""
    layouts = set(place.native.tuple_of("rope.layout"))
    if place.chain or len(layouts) != 1:
        yield Refused("EAGLE-3 layers rotate halves" if place.chain else "one layout for all draft layers")
    else:
        yield Edit("is_neox_style", layouts == {"half"})


def _mask(place: Place) -> Iterator[Step]:
    """`llm_base_proposer.py` `_init_parallel_drafting_params`, `gpu/spec_decode/utils.py`, and the model."""
    mask = place.native["block.mask_token_id"]
    if not place.dspark:
        yield Edit("dflash_config/mask_token_id", mask)
    yield Edit("mask_token_id", mask)


def _first_slot(place: Place) -> Iterator[Step]:
    """`dspark/speculator.py`; a DFlash block is 1 + K rows, whatever is asked (`dflash/speculator.py`)."""
    if not place.dspark:
        yield Refused("DFlash blocks are the bonus token and K masks")
    else:
        yield Edit("sample_from_anchor", place.native["block.first_slot"] == "predicts_next")


def _key(
    path: str, axis: str, meaning: Callable[[Value], Any] = lambda value: value
) -> Callable[..., Iterator[Step]]:
    """An axis that one key states."""

    def make(place: Place) -> Iterator[Step]:
        yield Edit(path, meaning(place.native[axis]))

    return make


def _chain_only(
    path: str, axis: str, meaning: Callable[[Value], Any] = bool
) -> Callable[..., Iterator[Step]]:
    """An axis that a key states for EAGLE-3 (`llama_eagle3.py`), and none for blocks."""
    chain = _key(path, axis, meaning)

    def make(place: Place) -> Iterator[Step]:
        if place.chain:
            yield from chain(place)
        else:
            yield Refused("DFlash has no such norm")

    return make


_WRITERS: dict[str, Callable[[Place], Iterator[Step]]] = {
    "taps.layers": _taps,
    "attention.causal": _causal,
    "attention.window": _window,
    "rope.theta": _rope,
    "rope.rotary_dims": _rope,
    "rope.scaling": _rope,
    "rope.attention_factor": _rope,
    "rope.layout": _layout,
    "block.mask_token_id": _mask,
    "block.first_slot": _first_slot,
    "head.multiplier": _key("logit_scale", "head.multiplier"),
    "chain.norm_before_residual": _chain_only("norm_before_residual", "chain.norm_before_residual"),
    "chain.feedback": _chain_only("norm_output", "chain.feedback", lambda value: value == "post_norm"),
    "fusion.tap_norm": _chain_only("fc_norm", "fusion.tap_norm"),
    "fusion.concat_norm": _chain_only("norm_before_fc", "fusion.concat_norm"),
}

MENDABLE = frozenset(_WRITERS)
"""Axes that an edit of the draft config can set."""
