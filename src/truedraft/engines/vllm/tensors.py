"""Parameters of the loaded drafter against the names in its checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from truedraft.checks import Finding
from truedraft.engines.vllm.facts import LiveEngine
from truedraft.formats import Checkpoint, find_tensors, is_quantised

_STACKED = (
    (re.compile(r"\.[qkv]_proj\."), ".qkv_proj."),
    (re.compile(r"\.(gate|up)_proj\."), ".gate_up_proj."),
)
_RENAMED = (("midlayer.", "layers.0."), ("encoder.output_norm_enc.", "hidden_norm."), ("encoder.fc.", "fc."))

_LOADED = (".weight", ".bias", "draft_id_to_target_id")
"""How parameters end that come from a checkpoint as they are; scales and packed ones are the kernels' own."""

_LOADER = "model_executor/models/qwen3_dflash.py hf_to_vllm_mapper, load_weights"
_MANY = 6


def unloaded(live: LiveEngine, names: Iterable[str]) -> tuple[str, ...]:
    """Parameters that nothing in the checkpoint stands for; they keep their initial values."""
    known = {vllm_name(name) for name in names}
    return tuple(name for name in live.parameters if name.endswith(_LOADED) and _bare(name) not in known)


def vllm_name(name: str) -> str:
    """A checkpoint's name as vLLM's parameters are called, without a leading `model.`."""
    if name == "d2t":
        return "draft_id_to_target_id"
    name = _bare(name)
    for old, new in _RENAMED:
        name = name.replace(old, new)
    for pattern, stacked in _STACKED:
        name = pattern.sub(stacked, name)
    return name


def _bare(name: str) -> str:
    return name.removeprefix("model.")


def findings(live: LiveEngine, draft: Checkpoint) -> Iterator[Finding]:
    """TD201 for parameters that were never loaded. Nothing is said of quantised drafters, whose parameters
    vLLM repacks and renames.
    """
    names = find_tensors(draft.directory)
    packed = any(is_quantised(draft, name) for name in draft.tensors)
    missing = unloaded(live, names) if names and not packed else ()
    if missing:
        shown = ", ".join(missing[:_MANY]) + (
            f" and {len(missing) - _MANY} more" if len(missing) > _MANY else ""
        )
        yield Finding(
            code="TD201",
            severity="error",
            confidence="likely",
            message=(
                f"{len(missing)} of {len(live.parameters)} parameters of the loaded drafter were never "
                f"loaded and keep their initial values: {shown}"
            ),
            where="draft/model.safetensors",
            found=shown,
            expected="a tensor in the checkpoint for each, or the target's storage",
            fix="save the tensors with the checkpoint, under the names that vLLM maps",
            references=(f"vLLM {live.version} {_LOADER}",),
        )
