"""Rotary embeddings of the draft layers: one table, built from `rope_parameters`."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import BOOLEAN, NUMBER
from truedraft.formats.engines._types import Fact, PairFiles
from truedraft.formats.engines.vllm._release import DFLASH, EAGLE3, Release, method

_ROPE = "model_executor/layers/rotary_embedding/__init__.py"
_INTERLEAVED = ("deepseek", "glm_moe_dsa", "kimi")
"""Targets of published drafters whose own rope pairs neighbours."""


def rope(release: Release, files: PairFiles) -> Iterator[Fact]:
    """Base, rotated dimensions and layout of drafters outside DeepSeek-V4."""
    if files.embedded or not files.layers or files.native.dialect == "laguna":
        return
    keys = files.decoder
    stated = [
        keys.get(p, NUMBER) for p in ("rope_parameters/rope_theta", "rope_scaling/rope_theta", "rope_theta")
    ]
    if not any(theta is not None for theta in stated):
        default = 1e6 if files.speculators else 1e4
        why = f"without rope_theta it takes {default:g}"
        fix = "state rope_theta in the draft config"
        reference = release.at(DFLASH if files.native.family != "eagle3" else EAGLE3)
        yield Fact("rope.theta", (default,) * files.layers, why, reference, fix=fix)
    yield from _dims(release, files)
    yield from _layout(release, files)


def _dims(release: Release, files: PairFiles) -> Iterator[Fact]:
    head_dim = files.native.get("backbone.head_dim")
    pointers = (
        "rope_parameters/partial_rotary_factor",
        "rope_scaling/partial_rotary_factor",
        "partial_rotary_factor",
    )
    shares = [files.decoder.get(pointer, NUMBER) for pointer in pointers]
    share = next((entry for entry in shares if entry is not None), None)
    if head_dim and share is not None and 0 < share <= 1:
        why = "partial_rotary_factor is honoured, also where the trainer ignored it"
        cost = "very low even on training prompts (speculators#613)"
        fix = "remove partial_rotary_factor if the drafter was trained on the whole head"
        dims = (int(head_dim * share),) * files.layers
        yield Fact("rope.rotary_dims", dims, why, release.at(_ROPE), cost, fix)


def _layout(release: Release, files: PairFiles) -> Iterator[Fact]:
    if files.native.family == "eagle3":
        return
    if release.since(30) or (release.since(28) and method(files) == "dspark"):
        neox = files.decoder.get("is_neox_style", BOOLEAN) is not False
        why = "is_neox_style of the draft config, true without it"
    elif release.since(28):
        neox = not files.spec.model_type.startswith(_INTERLEAVED)
        why = f"the style of the target's own rope ({files.spec.model_type})"
    else:
        neox, why = True, "always half rotation"
    layout = "half" if neox else "interleaved"
    fix = "0.30.0 or newer" if not release.since(30) else ""
    yield Fact("rope.layout", (layout,) * files.layers, why, release.at(DFLASH), fix=fix)
