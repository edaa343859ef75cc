"""The speculators library: it trains and converts drafters, and serves none.

Its reading of a pair is what its training forward computes for its own format, and what its converter writes
for z-lab's. Read and run in 0.9.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from truedraft.contract import Deployment
from truedraft.formats._keys import BOOLEAN, INTEGER, INTEGERS
from truedraft.formats.engines._types import Engine, EngineId, Fact, PairFiles, Refusal

_CORE = "speculators 0.9.0 models/dflash/core.py"
_CONVERTER = "speculators 0.9.0 convert/dflash/converter.py"


def _refusals(files: PairFiles) -> Iterator[Refusal]:
    if files.speculators:
        return
    where = "draft/config.json#/architectures"
    if files.native.family != "dflash":
        why = "its converter knows foreign DFlash checkpoints only"
        yield Refusal(why, where, "speculators 0.9.0 convert/entrypoints.py", "the producer's own tools")
    elif files.keys.get("dflash_config/target_layer_ids", INTEGERS) is None:
        why = "its converter reads dflash_config.target_layer_ids only, and there is none"
        yield Refusal(why, "draft/config.json#/dflash_config", _CONVERTER, "nest target_layer_ids first")


def _converted_taps(files: PairFiles) -> Iterator[Fact]:
    ids = files.keys.get("dflash_config/target_layer_ids", INTEGERS)
    if files.speculators or ids is None:
        return
    kept = tuple(i for i in ids if i != files.spec.layers - 1)
    why = (
        "its converter stores id + 1 and drops a tap of the last layer without a word; fc no longer fits then"
    )
    yield Fact("taps.layers", kept, why, _CONVERTER, fix="keep the producer's format")


def _converted_attention(files: PairFiles) -> Iterator[Fact]:
    if files.speculators:
        return
    sliding = files.sliding(files.keys) or (False,) * files.layers
    why = "its converter carries no causal flag, so sliding layers are causal and full ones are not"
    yield Fact("attention.causal", sliding, why, _CONVERTER)
    if any(sliding):
        why = "it counts windows from the anchor, for every slot"
        rule = ("anchor",) * files.layers
        yield Fact(
            "attention.window_rule",
            rule,
            why,
            "speculators 0.9.0 models/dflash/attention.py",
            severity="warning",
        )


def _defaults(files: PairFiles) -> Iterator[Fact]:
    """What its classes take for keys that an older or foreign writer left out."""
    if not files.speculators:
        return
    family = files.native.family
    if family in ("dflash", "dspark"):
        anchor = files.keys.get("sample_from_anchor", BOOLEAN)
        slot = (family == "dspark") if anchor is None else anchor
        why = f"without sample_from_anchor its {family} class takes {'true' if slot else 'false'}"
        fix = "state sample_from_anchor in the draft config"
        first = "predicts_next" if slot else "unused"
        yield Fact("block.first_slot", first, why, f"speculators 0.9.0 models/{family}/config.py", fix=fix)
        width = files.keys.get("block_size", INTEGER)
        if width is not None:
            yield Fact("block.proposals", width - (not slot), why, _CORE, fix=fix, severity="note")
        free = files.keys.get("sliding_window_non_causal", BOOLEAN)
        sliding = files.sliding()
        if free is None and sliding is not None and any(sliding):
            why = "without sliding_window_non_causal its class makes sliding layers causal"
            fix = "state sliding_window_non_causal in the draft config"
            yield Fact("attention.causal", sliding, why, "speculators 0.9.0 models/dflash/config.py", fix=fix)
    elif family == "eagle3" and files.keys.get("norm_before_residual", BOOLEAN) is None:
        why = "without norm_before_residual its class takes false"
        fix = "state norm_before_residual in the draft config"
        reference = "speculators 0.9.0 models/eagle3/config.py"
        yield Fact("chain.norm_before_residual", False, why, reference, fix=fix)


SPECULATORS = (
    Engine(
        EngineId("speculators", "0.9"),
        "source of 0.9.0; its training forward was run",
        (_refusals, _converted_taps, _converted_attention, _defaults),
        Deployment(runner="speculators"),
    ),
)
"""Releases, older ones first."""
