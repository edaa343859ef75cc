"""All that a release says of one pair, step by step; a step that stops takes only its own axes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from truedraft.engines.vllm.audit import drafter, runners, taps
from truedraft.engines.vllm.audit.probes import Probe
from truedraft.engines.vllm.audit.scene import Scene
from truedraft.engines.vllm.audit.seen import Seen, Stopped, attempt

STEPS = {
    "config": (),
    "runner": (),
    "model": (),
    "layers": (
        "backbone.layers",
        "attention.window",
        "rope.theta",
        "rope.rotary_dims",
        "rope.layout",
        "rope.scaling",
        "rope.positions",
    ),
    "heads": ("head.multiplier", "head.softcap", "markov.kind", "markov.rank"),
    "chain": ("chain.norm_before_residual", "chain.feedback", "fusion.concat_norm", "fusion.tap_norm"),
    "taps": ("taps.layers", "taps.state"),
    "slots": (
        "block.width",
        "block.proposals",
        "block.first_slot",
        "block.mask_token_id",
        "attention.causal",
    ),
}
"""Steps, and the axes that each gives."""

UNSEEN = {
    "attention.window_rule": "attention kernels",
    "attention.scale": "attention kernels",
    "block.anchor_fill": "a Triton kernel fills the block",
    "block.position_offset": "a Triton kernel fills the block",
    "context.end": "a Triton kernel places the context",
    "chain.token": "the proposer shifts tensors",
    "chain.position_offset": "the proposer shifts tensors",
    "fusion.output_norm": "the drafter's forward",
    "fusion.input_norm_on_context": "the drafter's forward",
    "embedding.source": "decided when weights are loaded",
    "embedding.scale": "the drafter's forward",
    "head.source": "decided when weights are loaded",
    "head.vocabulary_map": "decided when weights are loaded",
    "markov.previous": "the speculator's loop over tensors",
    "confidence.input": "the drafter's forward",
    "rope.attention_factor": "tables of the rotary embedding",
    "rope.placement": "kernels of the rotary embedding",
}
"""Conventions that no step gives, and what decides them instead; for these `check --engine` and a trace."""


def observe(scene: Scene, probe: Probe, asked: int | None) -> list[Seen | Stopped]:
    """Every step of a pair. `asked`: drafts per round, as the user sets them."""

    def pair() -> Iterator[Seen]:
        scene.pair(probe.target, probe.draft, probe.method, asked)
        yield from ()

    found = attempt("config", pair)
    if found:
        return found
    found += attempt("runner", lambda: runners.check_runner(scene))
    models: list[Any] = []

    def build() -> Iterator[Seen]:
        models.append(drafter.build(scene))
        yield from ()

    found += attempt("model", build)
    model = models[0] if models else None
    steps: dict[str, Callable[[], Iterator[Seen]]] = {"taps": lambda: taps.see_taps(scene)}
    if model is not None:
        by = f"{type(model).__name__}.__init__"
        steps["layers"] = lambda: drafter.see_layers(model, by)
        steps["heads"] = lambda: drafter.see_heads(model, by)
        if probe.method == "eagle3":
            steps["chain"] = lambda: drafter.see_chain(model, by)
        steps["fit"] = lambda: _fit(scene, model, found)
    if probe.method in ("dflash", "dspark"):
        steps["slots"] = lambda: runners.see_block(scene, model, probe.method)
    for name, run in steps.items():
        found += attempt(name, run)
    return found


def _fit(scene: Scene, model: Any, found: list[Seen | Stopped]) -> Iterator[Seen]:
    """Raises `ValueError` if `fc` is built for another number of taps than the target hands over."""
    taken = [len(entry.value) for entry in found if isinstance(entry, Seen) and entry.axis == "taps.layers"]  # type: ignore[arg-type]
    width = scene.vllm_config.model_config.get_hidden_size()
    built = drafter.built_taps(model, width)
    if taken and built is not None and built != taken[0]:
        raise drafter.Misfit(f"fc is built for {built} taps and gets {taken[0]}")
    yield from ()
