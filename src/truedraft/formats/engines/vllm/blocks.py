"""Slots, width and mask token of drafted blocks."""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.formats._keys import BOOLEAN, INTEGER
from truedraft.formats.engines._common import width_from_k
from truedraft.formats.engines._types import Fact, PairFiles, Severity
from truedraft.formats.engines.vllm._release import CONVERTER, DSPARK_V2, Release, method

_K = "num_speculative_tokens"


def slots(release: Release, files: PairFiles) -> Iterator[Fact]:
    """What slot 0 is taken for, and how many rows a block gets: as many as K asks for."""
    kind = method(files)
    if release.fork and not files.embedded:
        return
    if kind == "dflash":
        why = "DFlash blocks are the bonus token and K masks; slot 0 is never a prediction"
        fix = "an engine that reads sample_from_anchor"
        yield Fact("block.first_slot", "unused", why, release.at("v1/spec_decode/dflash.py"), fix=fix)
        most = files.proposals()
        yield from width_from_k(files, unused=True, most=most, reference=release.at(_K), fix=_asks(files))
    elif kind == "dspark" and files.embedded and release.fork:
        yield from _fork_width(release, files)
    elif kind == "dspark":
        yield from _dspark(release, files)
        if not release.since(28) and files.native.get("confidence.input") not in (None, "none"):
            why = "the confidence head's weights are skipped"
            at = release.at("models/qwen3_dspark.py")
            yield Fact("confidence.input", "none", why, at, fix="0.28.0 or newer", severity="note")


def _dspark(release: Release, files: PairFiles) -> Iterator[Fact]:
    anchor, why = _anchor(release, files)
    reference = release.at(CONVERTER if files.speculators else DSPARK_V2)
    cost = "about 1.1 instead of 4 (sglang#30982, vllm#48639)"
    fix = "state sample_from_anchor in the draft config"
    if not release.since(28):
        fix = "0.28.0 or newer, which reads sample_from_anchor"
    first = "predicts_next" if anchor else "unused"
    yield Fact("block.first_slot", first, why, reference, cost, fix)
    key = _default_key(release, files)
    default = None if key is None or files.asked is not None else files.keys.get(key, INTEGER)
    most = files.proposals() if default is None else default
    if most is not None:
        severity: Severity = "note" if default is None else "warning"
        why = f"K = {most} makes {most + (not anchor)} query rows"
        if default is not None:
            why = f"K is {most} by default, the {key}, which makes {most + (not anchor)} query rows"
        at = release.at(f"config/speculative.py {_K}")
        yield Fact("block.width", most + (not anchor), why, at, fix=_asks(files), severity=severity)
        yield Fact("block.proposals", most, why, at, fix=_asks(files), severity=severity)


def _default_key(release: Release, files: PairFiles) -> str | None:
    """The key that gives K where the user asks for none; `None` where the release wants to be told."""
    if files.embedded:
        return "num_nextn_predict_layers" if not release.since(32) else "dspark_block_size"
    return "block_size" if release.since(32) else None


def _anchor(release: Release, files: PairFiles) -> tuple[bool, str]:
    stated = files.keys.get("sample_from_anchor", BOOLEAN)
    if not release.since(28):
        if files.speculators:
            return (
                False,
                "speculators' DSpark is always run with slot 0 dropped; sample_from_anchor is not read",
            )
        return True, "every slot is a prediction; sample_from_anchor is not read"
    if stated is not None:
        return bool(stated), "sample_from_anchor"
    default = not files.speculators
    where = "speculators' format" if files.speculators else "raw checkpoints"
    return default, f"an absent sample_from_anchor means {str(default).lower()} in {where}"


def _fork_width(release: Release, files: PairFiles) -> Iterator[Fact]:
    size = files.target_keys.get("dspark_block_size", INTEGER)
    why = "the draft layers read dspark_block_size from the target's config"
    if size is None:
        why += ", which has none, and take 0"
    fix = "copy the dspark_* keys into the target's config"
    at = release.at("models/deepseek_v4/nvidia/dspark.py")
    yield Fact("block.width", size or 0, why, at, fix=fix)
    yield Fact("block.proposals", size or 0, why, at, fix=fix)


def _asks(files: PairFiles) -> str:
    trained = files.native.get("block.proposals")
    return "" if trained is None else f'"{_K}": {trained}'
