"""Which layers a release captures: a list of entries of layers, resolved from half a dozen keys."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import INTEGERS, OBJECT, TEXT
from truedraft.formats.engines._types import Fact, PairFiles
from truedraft.formats.engines.vllm._release import CONVERTER, V1_TAPS, V2_TAPS, Release

Ids = tuple[int, ...]
Found = tuple[Ids, str]
"""Entries of layers, and how they came about."""

RULE = "an entry L captures the input of layer L, the output of layer L-1"
TOP = "eagle_aux_hidden_state_layer_ids"
_RAW_COST = "3.92-4.03 instead of 4.11-4.16 on mt-bench with Qwen3-8B (vllm#40727)"
_DEFAULT_COST = "1.04 instead of 2.77 where a default replaced other layers (vllm#50170)"

_ORDER_FIX = "list the layers in ascending order and permute the columns of fc accordingly"


def taps(release: Release, files: PairFiles) -> Iterator[Fact]:
    """The captured layers, as outputs: sorted, each once, those beyond the target left out."""
    found = _speculators(release, files) if files.speculators else None
    found = found or (_v1(release, files) if release.v1 else _v2(release, files))
    layers = files.spec.layers
    cost = fix = ""
    if found is None:
        entries: Ids = (2, layers // 2, layers - 3)
        why = "no key that this runner reads states layers, so it takes its default, the entries 2, N//2, N-3"
        cost, fix = _DEFAULT_COST, _fix(release, files)
    else:
        entries, why = found
        if _raw(files) == entries and not files.speculators:
            cost = "2.97 instead of 3.19, 0.756 instead of 0.780 at position 0 (one boot each)"
            cost, fix = (cost if files.embedded else _RAW_COST), _fix(release, files)
    outputs = tuple(sorted({entry - 1 for entry in entries if 0 <= entry <= layers}))
    if tuple(entry - 1 for entry in entries) != outputs:
        why += "; captured in the order of layers, each once"
    trained = files.native.tuple_of("taps.layers")
    if trained and trained != tuple(sorted(set(trained), key=lambda tap: int(str(tap)))):
        fix = _ORDER_FIX  # no key keeps an order
    at = release.at(V1_TAPS if release.v1 else V2_TAPS)
    yield Fact("taps.layers", outputs, why, at, cost, fix)


def _ids(files: PairFiles, pointer: str) -> Ids | None:
    found = files.keys.get(pointer, INTEGERS)
    return tuple(found) if found else None


def _raw(files: PairFiles) -> Ids | None:
    """The ids as the checkpoint states them."""
    for pointer in ("dspark_target_layer_ids", "dflash_config/target_layer_ids", "target_layer_ids"):
        if (found := _ids(files, pointer)) is not None:
            return found
    return None


def _plus_one(ids: Ids | None, key: str) -> Found | None:
    if ids is None:
        return None
    return tuple(i + 1 for i in ids), f"{key} + 1; {RULE}"


def _as_is(ids: Ids | None, key: str) -> Found | None:
    return None if ids is None else (ids, f"{key} as they are; {RULE}")


def _speculators(release: Release, files: PairFiles) -> Found | None:
    key = TOP if files.native.family == "eagle3" else "aux_hidden_state_layer_ids"
    ids = _ids(files, key)
    if ids is None:
        return None
    return ids, f"{key} as they are ({CONVERTER}); {RULE}"


def _v1(release: Release, files: PairFiles) -> Found | None:
    if (top := _as_is(_ids(files, TOP), TOP)) is not None:
        return top
    if release.fork and (dspark := _ids(files, "dspark_target_layer_ids")) is not None:
        return _as_is(dspark, "dspark_target_layer_ids")
    key = "dflash_config.target_layer_ids"
    nested = _ids(files, "dflash_config/target_layer_ids")
    found = _plus_one(nested, key) if release.since(22) else _as_is(nested, key)
    eagle = files.keys.get("eagle_config", OBJECT)
    if release.since(22) and eagle:
        # Its ids replace those of dflash_config, and so does their absence.
        ids = _ids(files, f"eagle_config/{TOP}")
        found = _as_is(ids, f"eagle_config.{TOP}")
    return found


def _v2(release: Release, files: PairFiles) -> Found | None:
    keys = [_as_is(_ids(files, TOP), TOP)]
    if release.since(24):
        nested = _ids(files, "dflash_config/target_layer_ids")
        keys.append(_plus_one(nested, "dflash_config.target_layer_ids"))
    if release.since(26) or release.fork:
        dspark = _ids(files, "dspark_target_layer_ids")
        raw = release.since(30) and files.keys.get("model_type", TEXT) == "deepseek_v41"
        at_entry = _as_is(dspark, "dspark_target_layer_ids")
        keys.append(at_entry if raw else _plus_one(dspark, "dspark_target_layer_ids"))
        keys.append(_plus_one(_ids(files, "target_layer_ids"), "target_layer_ids"))
    if release.since(28):
        for place in ("dflash_config", "eagle_config"):
            keys.append(_as_is(_ids(files, f"{place}/layer_ids"), f"{place}.layer_ids"))
    return next((found for found in keys if found is not None), None)


def _fix(release: Release, files: PairFiles) -> str:
    ids = files.native.tuple_of("taps.layers")
    entries = ", ".join(str(int(str(tap)) + 1) for tap in ids)
    edit = f'write "{TOP}": [{entries}] at the top level of the draft config' if ids else ""
    if release.fork and release.v1:
        return f"the V2 runner, or {edit}"
    if not release.since(22):
        return f"0.22.1 or newer, or {edit}"
    return edit
