"""The drafter, built by the release's own model class: windows, rope, tables and heads of its layers.

The registry of the release names the class, its constructors run as they are; layers that hold weights are
stand-ins that keep what they were made with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from truedraft.contract import Value
from truedraft.engines.vllm.audit.rope import rope_of
from truedraft.engines.vllm.audit.scene import Scene
from truedraft.engines.vllm.audit.seen import NotSupported, Seen
from truedraft.engines.vllm.audit.stand_ins import Blank, Gap, Part

_MARKOV = {"gate_proj": "gated", "joint_proj": "rnn"}
"""Modules beside the two tables that make another kind of sequence head (speculators 0.9 `markov.py`)."""


def build(scene: Scene) -> Any:
    """The drafter's model object. Raises what its constructors raise."""
    architecture = scene.vllm_config.speculative_config.draft_model_config.architectures[0]
    return scene.model_class(architecture)(vllm_config=scene.vllm_config, prefix="")


def layers_of(model: Any) -> list[Any]:
    """Its draft layers, in order."""
    inner = getattr(model, "model", model)
    layers = inner.layers
    return list(layers.values()) if isinstance(layers, dict) else list(layers)


def see_layers(model: Any, by: str) -> Iterator[Seen]:
    """Windows and rope, per layer."""
    layers = layers_of(model)
    yield Seen("backbone.layers", len(layers), by)
    yield Seen("attention.window", tuple(_window(layer) for layer in layers), by)
    ropes = [rope_of(_inside(layer, "rotary_emb")) for layer in layers]
    for axis in ropes[0] if ropes else ():
        yield Seen(axis, tuple(rope[axis] for rope in ropes), by)


def see_heads(model: Any, by: str) -> Iterator[Seen]:
    """Vocabulary, logit factors, sequence head and confidence head."""
    processor = vars(model).get("logits_processor")
    if isinstance(processor, Part):
        keywords = processor.keywords
        if processor.args:
            yield Seen("head.vocabulary", processor.args[0], by)
        yield Seen("head.multiplier", float(keywords.get("scale", 1.0)), by)
        yield Seen("head.softcap", keywords.get("soft_cap"), by)
    inner = getattr(model, "model", model)
    markov = vars(inner).get("markov_head")
    if markov is not None:
        yield Seen("markov.rank", _made(markov.markov_w1, 1, "embedding_dim"), by)
        parts = {name for name, value in vars(markov).items() if isinstance(value, Part)}
        kind = next((kind for name, kind in _MARKOV.items() if name in parts), "vanilla")
        yield Seen("markov.kind", kind, f"{by}: {type(markov).__name__} of {', '.join(sorted(parts))}")
        if (
            vars(inner).get("confidence_head") is None
        ):  # what a present one is fed with is no matter of __init__
            yield Seen("confidence.input", "none", by)


def see_chain(model: Any, by: str) -> Iterator[Seen]:
    """EAGLE-3's norms, from the methods that the built layer holds."""
    inner = model.model
    layer = layers_of(model)[0]
    normed, raw = Blank("normed"), Blank("raw")
    layer.hidden_norm = lambda *args, **keywords: normed
    _, residual = layer._residual_norm(hidden_states=raw)
    yield Seen("chain.norm_before_residual", residual is normed, f"{by}: {layer._residual_norm.__name__}")
    yield Seen("fusion.concat_norm", vars(inner).get("input_norm") is not None, by)
    yield Seen("fusion.tap_norm", vars(inner).get("fc_norm") is not None, by)
    output = bool(vars(inner).get("norm_output", False))
    yield Seen("chain.feedback", "post_norm" if output else "residual", by)


class Misfit(NotSupported):
    """Two of the release's own numbers do not fit each other: its first forward would raise."""


def built_taps(model: Any, hidden: int) -> int | None:
    """How many taps its `fc` is built for, given the width of one; `None` if it has no `fc`."""
    inner = getattr(model, "model", model)
    for name in ("fc", "main_proj"):
        part = vars(inner).get(name)
        if isinstance(part, Part):
            return int(_made(part, 0, "input_size")) // hidden
    return None


def _window(layer: Any) -> Value:
    own = _inside(layer, "window_size", None)
    if own is not None:
        return int(own)
    attention = _inside(layer, "attn")
    window = attention.keywords.get("per_layer_sliding_window")
    if isinstance(window, Blank):
        raise Gap("per_layer_sliding_window was not computed")
    return None if window is None else int(window)


_NEEDED: Any = object()


def _inside(layer: Any, name: str, default: Any = _NEEDED) -> Any:
    """The attribute of a layer or of the first of its parts that has it."""
    queue = [layer]
    while queue:
        part = queue.pop(0)
        if name in vars(part):
            found = vars(part)[name]
            if isinstance(found, Blank):
                raise Gap(f"{type(part).__name__}.{name} was not computed")
            if not (name == "attn" and "rotary_emb" in vars(found)):  # DeepSeek calls the whole module so
                return found
        queue += [value for value in vars(part).values() if isinstance(value, Part)]
    if default is not _NEEDED:
        return default
    raise Gap(f"{type(layer).__name__} has no {name}")


def _made(part: Part, index: int, name: str) -> Any:
    """An argument that a part was made with."""
    value = part.keywords[name] if name in part.keywords else part.args[index]
    if isinstance(value, Blank):
        raise Gap(f"{name} of {type(part).__name__} was not computed")
    return value
