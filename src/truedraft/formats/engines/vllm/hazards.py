"""What a release does to a block drafter beyond its conventions: prefix cache, reservations, kernels."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import BOOLEAN
from truedraft.formats.engines._types import Hazard, PairFiles
from truedraft.formats.engines.vllm._release import Release, method


def hazards(release: Release, files: PairFiles) -> Iterator[Hazard]:
    """Hazards of DFlash and DSpark drafters."""
    if method(files) not in ("dflash", "dspark") or (release.fork and not files.embedded):
        return
    if not release.fork:
        yield _block_drop(release, files)
        yield _prefix_cache(release)
        yield from _lookahead(release, files)
    if release.fork:
        why = "its KV zeroer takes the block stride of a packed layout for the span to clear"
        fix = "check the layout with --kv-layout (TD431)"
        yield Hazard("defect", why, "jasl/vllm@b5c0d43b, vllm#50276", fix=fix)
    if release.since(26) and not files.embedded and files.layers > 1 and files.native.get("backbone.qk_norm"):
        why = "its CPU build norms the context keys of every draft layer with the first layer's k_norm"
        cost = "136 accepted in 242 rounds instead of 144 in 234; a collapse on XPU (vllm#56431)"
        yield Hazard(
            "defect", why, release.at("model_executor/models/qwen3_dflash.py"), cost, severity="note"
        )


def _block_drop(release: Release, files: PairFiles) -> Hazard:
    hybrid = any("linear" in kind or "mamba" in kind for kind in files.spec.layer_kinds)
    size = "a block of a hybrid target is thousands of tokens" if hybrid else "a block of 16 tokens here"
    why = (
        f"the last matched block of every prefix hit is dropped, though {files.native.family} never "
        f"writes it; {size}"
    )
    fix = '"disable_eagle_block_drop": true'
    if not release.since(30):
        fix = "0.30.0 or newer, which has disable_eagle_block_drop"
    at = release.at("v1/core/single_type_kv_cache_manager.py")
    cost = "prefix hits of 97.5 % become 87-92 %, or none (vllm#53670, #54360)"
    return Hazard("block_drop", why, at, cost, fix, "warning" if hybrid else "note")


def _prefix_cache(release: Release) -> Hazard:
    reported = release.since(23) and not release.since(30) and not release.fork
    why = "reported for 0.23 and 0.28: rows restored from the prefix cache have no draft context"
    fix = "--no-enable-prefix-caching, or compare cold with repeated prompts"
    cost = "about 1.0 on shared prefixes (vllm#47930)"
    return Hazard("prefix_cache", why, "vllm#47930", cost, fix, "warning" if reported else "note")


def _lookahead(release: Release, files: PairFiles) -> Iterator[Hazard]:
    fill_in = files.native.get("block.first_slot") == "unused"
    stated = files.keys.get("sample_from_anchor", BOOLEAN) is False
    runs_so = release.since(28) or files.speculators or stated
    if method(files) == "dspark" and fill_in and runs_so and not release.since(32):
        why = "cache slots are reserved for K rows, and this drafter writes K+1: the last lies outside"
        yield Hazard("defect", why, "vllm#48909", fix="0.32.0 or newer")
