"""From a target's directory to a transformers model, and to the adapter that decodes with it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truedraft.contract import Contract, InputError
from truedraft.formats import find_tensors
from truedraft.models.stateful_types import STATEFUL_TYPES
from truedraft.models.target import MODEL_TYPES, HFTarget
from truedraft.models.target_config import as_config_error, load_config
from truedraft.models.target_weights import FileNames, refuse_gaps, refuse_misfits, refuse_oversized
from truedraft.models.third_party import quiet

if TYPE_CHECKING:
    from truedraft.models.stateful import StatefulTarget


def make_target(contract: Contract, model: Any) -> HFTarget | StatefulTarget:
    """The adapter for a loaded model: packed rows where its state is keys and values, else one by one.

    Raises `InputError` for taps that the adapter cannot catch.
    """
    layers, states = tuple(contract["taps.layers"]), tuple(contract["taps.state"])
    stop_token_ids = frozenset(contract.target.stop_token_ids)
    if model.config.model_type not in MODEL_TYPES:
        return _stateful()(model, layers, states, stop_token_ids=stop_token_ids)
    for state in states:
        if state != "residual":
            raise InputError(
                f"taps.state={state}: {model.config.model_type} targets cannot give this, expected residual"
            )
    return HFTarget(model, layers, stop_token_ids=stop_token_ids)


def load_target_model(directory: Path, *, dtype: torch.dtype, device: str) -> Any:
    """The target as a transformers model. Raises `InputError` if weights are missing, extra or misshapen."""
    from transformers import AutoModelForCausalLM

    config = load_config(directory)
    text = config.get_text_config(decoder=True)  # multimodal configs nest it
    known = MODEL_TYPES | STATEFUL_TYPES
    model_type = getattr(text, "model_type", config.model_type)
    if model_type not in known or text is None or isinstance(text, dict):
        raise InputError(
            f"{directory}/config.json#/model_type: found {model_type!r}, "
            f"expected one of {', '.join(sorted(known))}"
        )
    _refuse_rope_that_follows_length(text, directory)
    stored = find_tensors(directory)
    if not stored:
        raise InputError(f"{directory}: found no safetensors, expected the target's weights")
    refuse_gaps(stored)
    with quiet(), as_config_error(directory):
        refuse_oversized(config, stored, directory)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory,
            config=config,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, in one line
            output_loading_info=True,
        )
    model, info = loaded
    names = FileNames(model, stored, directory)
    refuse_misfits(names, info)
    saved = model.state_dict().keys()
    weights = [*model.named_parameters(), *((name, b) for name, b in model.named_buffers() if name in saved)]
    for name, weight in weights:
        if weight.is_floating_point():
            require_finite(weight, f"{directory}#{names.shown(name)}")
    return model.to(device)


def _refuse_rope_that_follows_length(config: Any, directory: Path) -> None:
    """Such frequencies depend on how far a forward reaches, so that drafts would change earlier rows."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [entry for entry in parameters.values() if isinstance(entry, dict)]
    for entry in nested or [parameters]:
        if entry.get("rope_type") in ("dynamic", "longrope"):
            raise InputError(
                f"{directory}/config.json#/rope_parameters: found rope_type {entry['rope_type']!r}, expected "
                "one whose frequencies do not depend on the sequence length"
            )


def require_finite(weight: Tensor, where: str) -> None:
    """Raise `InputError` on NaN or infinite values."""
    if not torch.isfinite(weight).all():
        raise InputError(f"{where}: found NaN or infinite values, expected finite weights")


def _stateful() -> type[StatefulTarget]:
    try:
        for part in ("rewind", "rewind_linear", "rewind_tree"):  # what the adapter imports when it is made
            import_module(f"truedraft.models.{part}")
        from truedraft.models.stateful import StatefulTarget
    except ImportError:
        import transformers

        raise InputError(
            f"transformers {transformers.__version__}: found no caches that can be rolled back, expected "
            "5.23 or newer for targets with more state than keys and values"
        ) from None
    return StatefulTarget
