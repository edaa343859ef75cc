"""Drafters that are known and not supported: refused by name, never read as their nearest kin.

An engine that loads a DFlash 2 checkpoint as DFlash drops its convolutions and its selector without a word
(vllm-ascend carried a patch that did).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from truedraft.formats.readers import deepseek_v4


@dataclass(frozen=True)
class Unsupported:
    """One family: its name, what is not supported about it, and how its configs are recognised."""

    name: str
    reason: str
    matches: Callable[[Mapping[str, Any]], bool]


def find_unsupported(config: Mapping[str, Any]) -> Unsupported | None:
    """The known but unsupported family of a draft config, if it is of one.

    Directories of speculators name their family themselves, and their reader refuses what it does not know.
    """
    if config.get("speculators_model_type") is not None:
        return None
    return next((family for family in _FAMILIES if family.matches(config)), None)


def _named(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    def matches(config: Mapping[str, Any]) -> bool:
        found = config.get("architectures")
        return isinstance(found, list) and any(name in names for name in found if isinstance(name, str))

    return matches


def _nested(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("dflash_config")
    return found if isinstance(found, dict) else {}


_FAMILIES = (
    Unsupported(
        "DFlash 2",
        "its convolutions around attention and MLP and its candidate selector are not implemented yet",
        lambda config: _named("DFlash2DraftModel")(config) or "selector_rank" in _nested(config),
    ),
    Unsupported(
        "Domino",
        "its recurrent head over the block's logits is not implemented",
        lambda config: (
            _named("DominoDraftModel")(config) or _nested(config).get("projector_type") == "domino"
        ),
    ),
    Unsupported(
        "P-EAGLE",
        "its parallel drafting with a learned mask state is not implemented",
        lambda config: (
            _named("PEagleDraftModel", "PeagleLlamaForCausalLM", "PeagleQwen3ForCausalLM")(config)
            or config.get("parallel_drafting") is True
        ),
    ),
    Unsupported(
        "MiMo DFlash",
        "attention sinks, a factor on values and a mask embedding of its own are not implemented",
        lambda config: any(
            key in _nested(config) for key in ("attention_sink_bias", "attention_value_scale")
        ),
    ),
    Unsupported(
        "DeepSpec DSpark for Gemma 4",
        "keys and values from one projection and rope of type proportional are not implemented",
        _named("Gemma4DSparkModel"),
    ),
    Unsupported(
        "DeepSeek-V4",
        "this is a target's config, and the drafter inside is an MTP layer (num_nextn_predict_layers)",
        lambda config: (
            config.get("model_type") in ("deepseek_v4", "deepseek_v41") and not deepseek_v4.matches(config)
        ),
    ),
)
