"""`TRUEDRAFT=fix`: what no key of the draft config can mend, on the loaded objects, before any graph is
captured. The only module that writes to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MethodType
from typing import Any

from truedraft.contract import Contract
from truedraft.engines.vllm.facts import LiveEngine
from truedraft.engines.vllm.judge import K_NORM
from truedraft.engines.vllm.live import drafter_of, head_of, target_of
from truedraft.engines.vllm.settings import Settings


def mend(native: Contract, live: LiveEngine, runner: Any, settings: Settings) -> Iterator[str]:
    """Mend what can be mended; a line for each."""
    model = drafter_of(runner).model
    if live.k_norm_error is not None and live.k_norm_error > K_NORM and settings.mends("backbone.qk_norm"):
        _per_layer_k_norm(model.model)
        yield "truedraft fix k_norm of context keys: the first layer's for all layers -> each layer's own"
    if _unshared(native, live) and settings.mends("head.source"):
        theirs, ours = head_of(target_of(runner)), getattr(model, "lm_head", None)
        same = ours is not None and theirs is not None and theirs.weight.shape == ours.weight.shape
        if same and type(theirs) is type(ours):
            del model.lm_head
            model.lm_head = theirs
            yield "truedraft fix head.source: own, never loaded -> target"
        else:
            yield "truedraft fix leaves head.source: the target's head has another shape or class"


def _unshared(native: Contract, live: LiveEngine) -> bool:
    """Whether the drafter should read the target's head, has one of its own, and no checkpoint filled it."""
    head = live.head
    return (
        native.get("head.source") == "target" and head is not None and head.shared is False and not head.own
    )


def _per_layer_k_norm(inner: Any) -> None:
    """As `DFlashQwen3Model._normalize_context_k` (`qwen3_dflash.py`) means it: layer by layer."""
    import torch
    from vllm import _custom_ops as ops  # type: ignore[import-not-found]

    def normalize(self: Any, keys: torch.Tensor) -> torch.Tensor:
        normed = torch.empty_like(keys)  # [layers, context, kv heads, head_dim]
        for layer, weight in enumerate(self._k_norm_weights):
            ops.rms_norm(normed[layer], keys[layer], weight, self._rms_norm_eps)
        return normed

    inner._normalize_context_k = MethodType(normalize, inner)
