"""Embedding, head and their scalars."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import NUMBER
from truedraft.formats.engines._types import Fact, PairFiles
from truedraft.formats.engines.vllm._release import DFLASH, Release, generic


def tables(release: Release, files: PairFiles) -> Iterator[Fact]:
    """What block drafters outside DeepSeek-V4 embed and score with."""
    if not generic(files):
        return
    yield from _scalars(release, files)
    full = files.native.get("head.vocabulary_map") == "none"
    if not release.v1 and release.version == (0, 24) and full and files.native.get("head.source") == "own":
        why = "the target's head replaces an own one of the whole vocabulary"
        at = release.at("v1/worker/gpu/spec_decode/dflash/utils.py")
        yield Fact(
            "head.source", "target", why, at, fix="the V1 runner, or 0.26.0 or newer", severity="warning"
        )


def _scalars(release: Release, files: PairFiles) -> Iterator[Fact]:
    why = "the drafter gets the raw rows of the table; input_embedding_scale is not read"
    fix = "fold the scale into a copy of the table in the checkpoint"
    yield Fact("embedding.scale", 1.0, why, release.at(DFLASH), "low acceptance on Gemma (vllm#41703)", fix)
    scale = files.keys.get("logit_scale", NUMBER)
    why = "logit_scale at the top level; output_multiplier is not read for DFlash"
    yield Fact("head.multiplier", 1.0 if scale is None else scale, why, release.at(DFLASH))
    why = "final_logit_softcapping is not read for DFlash; it changes sampled drafts, not their order"
    yield Fact("head.softcap", None, why, release.at(DFLASH), severity="warning")
