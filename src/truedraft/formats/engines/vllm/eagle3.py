"""EAGLE-3: norms, what is fed back, and how many taps its `fc` is built for."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import BOOLEAN
from truedraft.formats.engines._types import Fact, PairFiles
from truedraft.formats.engines.vllm._release import CONVERTER, EAGLE3, Release


def eagle3(release: Release, files: PairFiles) -> Iterator[Fact]:
    """Norms and recurrence of a chain."""
    if files.native.family != "eagle3":
        return
    keys, converted = files.keys, files.speculators
    before = keys.get("norm_before_residual", BOOLEAN)
    default = converted
    why = f"an absent norm_before_residual means {str(default).lower()} here"
    if before is not None:
        why = "norm_before_residual at the top level"
    reference = release.at(CONVERTER if converted else EAGLE3)
    cost = "5.08 becomes 1.10 on tiny/eagle3"
    fix = "state norm_before_residual at the top level of the draft config"
    value = default if before is None else before
    yield Fact("chain.norm_before_residual", value, why, reference, cost, fix)
    yield from _norms(release, files)


def _norms(release: Release, files: PairFiles) -> Iterator[Fact]:
    known = release.since(26) if files.speculators else release.since(22)
    keys = files.keys
    why = "top-level key" if known else "this release does not read the key"
    fix = "" if known else "0.26.0 or newer" if files.speculators else "0.22.1 or newer"
    at = release.at(CONVERTER if files.speculators else EAGLE3)
    per_tap = bool(known and keys.get("fc_norm", BOOLEAN))
    yield Fact("fusion.tap_norm", per_tap, f"fc_norm: {why}", at, fix=fix)
    output = bool(known and keys.get("norm_output", BOOLEAN))
    yield Fact("chain.feedback", "post_norm" if output else "residual", f"norm_output: {why}", at, fix=fix)
    pointers = ["norm_before_fc"]
    if release.since(22) and not files.speculators:
        pointers.insert(0, "eagle_config/norm_before_fc")
    stated = [keys.get(pointer, BOOLEAN) for pointer in pointers]
    joint = next((entry for entry in stated if entry is not None), False)
    why = f"norm_before_fc ({' or '.join(p.replace('/', '.') for p in pointers)}), absent means false"
    yield Fact("fusion.concat_norm", bool(joint), why, at, fix="write norm_before_fc at the top level")
