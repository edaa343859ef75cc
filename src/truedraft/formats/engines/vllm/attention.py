"""Windows and causality of the draft layers.

Up to 0.24 there is no window; 0.26 reads `layer_types` and one flag, 0.28 `is_causal` too. The V1 runner has
one causal flag for all draft layers, the V2 runner one per layer.
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import BOOLEAN, INTEGER
from truedraft.formats.engines._common import causal_setting
from truedraft.formats.engines._types import Fact, PairFiles
from truedraft.formats.engines.vllm._release import CONVERTER, DFLASH, Release, generic

_WINDOW_COST = "fine below W, then late positions fall to exactly 0 (AEON#6)"
_CAUSAL_COST = "not visible in acceptance on a weak drafter, 297 of 591 proposals differ on a trained one"


def attention(release: Release, files: PairFiles) -> Iterator[Fact]:
    """Windows, how they are counted, and causality, for block drafters outside DeepSeek-V4."""
    if not generic(files):
        return
    windows = _windows(files) if release.since(26) else (None,) * files.layers
    why = "layer_types with sliding_window, or dflash_config.use_swa"
    fix = ""
    if not release.since(26):
        why = "layer_types, sliding_window and use_swa are not read: every draft layer is full"
        fix = "0.26.0 or newer (the V2 runner where full and sliding layers are mixed)"
    yield Fact("attention.window", windows, why, release.at(DFLASH), _WINDOW_COST, fix)
    if any(windows):
        why = "a key is visible iff q-k < W, for each query"
        rule = ("query",) * files.layers
        cost = "0.38 of 6.43 on tiny/dflash-speculators with W 32, less for wide windows"
        fix = "none in vLLM; wide windows make it harmless"
        yield Fact("attention.window_rule", rule, why, release.at(DFLASH), cost, fix, "warning")
    yield from _causal(release, files)


def _windows(files: PairFiles) -> tuple[int | None, ...]:
    decoder = files.decoder
    own = decoder.get("dflash_config/swa_window_size", INTEGER)
    width = own if own is not None else decoder.get("sliding_window", INTEGER)
    sliding = files.sliding() or (False,) * files.layers
    if not any(sliding) and decoder.get("dflash_config/use_swa", BOOLEAN):
        sliding = (True,) * files.layers
    return tuple(width if slides else None for slides in sliding)


def _causal(release: Release, files: PairFiles) -> Iterator[Fact]:
    value, why, fix = _per_layer(release, files)
    at = release.at(CONVERTER if files.speculators and "sliding_window_non_causal" in why else DFLASH)
    if release.v1 and release.since(26) and any(value) and not all(value):
        value = (False,) * files.layers
        why += "; V1 has one flag for all layers, causal only if every one is"
        fix = "the V2 runner"
    yield Fact("attention.causal", value, why, at, _CAUSAL_COST, fix)


def _per_layer(release: Release, files: PairFiles) -> tuple[tuple[bool, ...], str, str]:
    layers = files.layers
    if not release.since(23):
        return (False,) * layers, "no draft layer is causal; there is no flag", "0.26.0 or newer"
    stated = files.decoder.get("is_causal", BOOLEAN) if release.since(28) else None
    if stated is not None:
        fix = causal_setting(files, "is_causal")
        return (stated,) * layers, "is_causal, for every layer", fix
    flag, name, fix = _flag(release, files)
    if flag is not None:
        return (flag,) * layers, f"{name}, for every layer", fix
    if not release.since(26):
        return (
            (False,) * layers,
            "one flag (dflash_config.causal), and an absent one means false",
            "0.26.0 or newer",
        )
    sliding = files.sliding() or (False,) * layers
    fix = causal_setting(files, "is_causal" if release.since(28) else "dflash_config.causal")
    return sliding, "sliding layers are causal and full ones are not", fix


def _flag(release: Release, files: PairFiles) -> tuple[bool | None, str, str]:
    if files.native.dialect == "transformers":
        return False, "MuseGlimmerAssistantConfig sets causal=false", ""
    if not files.speculators:
        name, fix = "dflash_config.causal", causal_setting(files, "dflash_config.causal")
        return files.keys.get("dflash_config/causal", BOOLEAN), name, fix
    if not release.since(26) or files.native.family != "dflash":
        return None, "", ""
    free = files.keys.get("sliding_window_non_causal", BOOLEAN)
    if free is None:
        return False, "an absent sliding_window_non_causal means not causal", "state the flag"
    name = f"sliding_window_non_causal={str(free).lower()} becomes causal={str(not free).lower()}"
    fix = ""
    if not free:
        fix = (
            "true in sliding_window_non_causal if no layer slides; otherwise no setting gives the "
            "trained masks"
        )
        if not any(files.sliding() or ()):
            fix = '"sliding_window_non_causal": true, which changes nothing else where no layer slides'
    return not free, name, fix
