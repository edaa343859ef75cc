"""Which states a release hands to the drafter, and in which order: its resolver, then its target's forward.

The target's own forward runs over layers that return labels instead of tensors; the labels that it collects
are the captured states. For which config keys win, the runner's own resolver is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from truedraft.contract import Value
from truedraft.engines.vllm.audit.places import constant
from truedraft.engines.vllm.audit.program import Missing
from truedraft.engines.vllm.audit.scene import Scene
from truedraft.engines.vllm.audit.seen import Seen
from truedraft.engines.vllm.audit.stand_ins import Blank, Gap, Shell
from truedraft.engines.vllm.audit.states import State

_V1 = "vllm/v1/worker/gpu_model_runner.py"
_V2 = "vllm/v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"
_HYPER = ("deepseek_v4",)
"""Model types whose layers carry several streams: they return (hidden, residual, post, mix)."""


def see_taps(scene: Scene) -> Iterator[Seen]:
    """Layers and states of the taps."""
    entries, by = _entries(scene)
    states, forward = _captured(scene, entries)
    if states is None:
        raise Gap(
            f"takes the entries {list(entries)} of layers ({by}); the target's forward is not run: {forward}"
        )
    layers: list[Value] = []
    kinds: list[Value] = []
    for state in states:
        kind, layer = state.state
        layers.append(layer)
        kinds.append({"residual_stream": "residual", "embedding": "residual"}.get(kind, kind))
    yield Seen("taps.layers", tuple(layers), f"{by}; {forward}")
    yield Seen("taps.state", tuple(kinds), forward)


def _entries(scene: Scene) -> tuple[tuple[int, ...], str]:
    """The entries of layers that the runner asks the target for."""
    asked: list[tuple[int, ...]] = []
    model = _target(scene)
    speculative = scene.vllm_config.speculative_config
    program = scene.program
    if scene.runner == "v2":
        name = "set_eagle3_aux_hidden_state_layers"
        program.find(_V2, "get_eagle3_aux_layers_from_config")
        model.set_aux_hidden_state_layers = lambda layers: asked.append(tuple(layers))
        program.find(_V2, name)(model, speculative)
        return asked[0], f"{_V2.removeprefix('vllm/')}:{name}"
    name = "GPUModelRunner._get_eagle3_aux_layers_from_config"
    found = program.find(_V1, name)(Shell("runner", speculative_config=speculative))
    found = found or model.get_eagle3_default_aux_hidden_state_layers()
    return tuple(found), f"{_V1.removeprefix('vllm/')}:{name}"


def _target(scene: Scene) -> Any:
    """The target's model object, not constructed: only its methods are used."""
    model = scene.vllm_config.model_config
    kind = scene.model_class(model.architectures[0])
    outer = object.__new__(kind)
    inner = object.__new__(_inner_class(scene, kind))
    count = model.get_num_layers()
    streams = model.hf_config.model_type in _HYPER
    norm = lambda *args: (Blank("normed"), Blank("residual"))  # noqa: E731
    plumbing = {
        "config": model.hf_config,
        "layers": [_Layer(i, streams) for i in range(count)],
        "start_layer": 0,
        "end_layer": count,
        "norm": norm if not streams else constant(Blank("normed")),
        "embed_tokens": constant(State("embedding", -1)),
        "use_mega_moe": False,
        "use_native_mega_moe": False,
        "use_sequence_parallel": False,
        "_mtp_hidden_buffer": Blank("buffer"),
        "hc_head_fn": None,
        "hc_head_scale": None,
        "hc_head_base": None,
        "hc_mult": 4,
        "rms_norm_eps": 1e-6,
        "hc_eps": 1e-6,
        "has_local_hash_moe": False,
    }
    vars(inner).update(plumbing)
    vars(outer).update(model=inner, config=model.hf_config)
    return outer


def _inner_class(scene: Scene, kind: Any) -> Any:
    """The class of the decoder inside `kind`: in the same file, with a forward of its own or inherited."""
    name = kind.__name__.replace("ForCausalLM", "Model")
    for path, module in list(scene.program.modules.items()):
        if kind.__name__ in module.definitions and name in module.definitions:
            return scene.program.find(path, name)
    raise Missing(f"no class {name} beside {kind.__name__}")


def _captured(scene: Scene, entries: tuple[int, ...]) -> tuple[list[State] | None, str]:
    """The states that the target's forward collects for these entries."""
    outer = _target(scene)
    inner = outer.model
    inner._set_aux_hidden_state_layers(entries)
    result = inner.forward(Blank("ids"), Blank("positions"), None, None)
    where = f"{type(inner).__name__}.forward"
    if not isinstance(result, tuple):
        return [], where
    states = list(result[1])
    return (states if all(isinstance(state, State) for state in states) else None), where


class _Layer:
    """A target layer that returns labels."""

    def __init__(self, index: int, streams: bool) -> None:
        self.index, self.streams = index, streams

    def __call__(self, *args: object, **keywords: object) -> tuple[Any, ...]:
        pair = State("hidden", self.index), State("residual", self.index)
        return (*pair, Blank("post"), Blank("mix")) if self.streams else pair
