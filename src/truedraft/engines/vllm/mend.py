"""`TRUEDRAFT=fix`: edits of the draft config before vLLM builds anything from it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from truedraft.contract import Contract, diff, format_value
from truedraft.engines.vllm.draft_config import DraftConfig
from truedraft.engines.vllm.edits import Edit, Place, Refused, steps
from truedraft.engines.vllm.release import known_release
from truedraft.engines.vllm.settings import Settings
from truedraft.formats import Inspection
from truedraft.formats.engines import read_engine

LOG = logging.getLogger("vllm.truedraft")


WIDTH = ("block.width", "block.proposals")
"""Axes that K decides, which is the user's: only an order that names them changes it (`fix:block`)."""


@dataclass(frozen=True)
class Planned:
    """An axis that this release would run otherwise. `before`: as it would, in words."""

    axis: str
    before: str
    after: str


def v2_switch() -> bool | None:
    """`VLLM_USE_V2_MODEL_RUNNER` (`vllm/envs.py`): on, off, or left to vLLM."""
    word = os.environ.get("VLLM_USE_V2_MODEL_RUNNER")
    return None if word is None else word.strip() in ("1", "true", "True")


def planned(
    native: Contract, files: Inspection, version: str, v2: bool | None, asked: int | None
) -> tuple[Planned, ...]:
    """The axes on which a runner of this release would not follow `native`.

    `files`: the pair without the user's overrides, as vLLM reads it.
    """
    found: dict[str, Planned] = {}
    for runner in ("v1", "v2") if v2 is None else ("v2",) if v2 else ("v1",):
        engine = known_release(version, runner)
        if engine is None or files.contract is None:
            continue
        for entry in diff(native, read_engine(engine, files, asked).contract):
            if entry.left.state == "value":
                before = (
                    format_value(entry.right.value) if entry.right.state == "value" else entry.right.state
                )
                found.setdefault(entry.axis, Planned(entry.axis, before, format_value(entry.left.value)))
    return tuple(found.values())


def apply(plan: tuple[Planned, ...], place: Place, config: DraftConfig, settings: Settings) -> Iterator[str]:
    """Edit the config for every planned axis that `settings` names; a line for each, before and after."""
    for entry in plan:
        if not settings.mends(entry.axis) or entry.axis in WIDTH:
            continue
        todo = list(steps(entry.axis, place))
        refused = next((step for step in todo if isinstance(step, Refused)), None)
        if refused is not None:
            yield f"truedraft fix leaves {entry.axis} at {entry.before}, not {entry.after}: {refused.why}"
            continue
        changes = []
        for step in todo:
            assert isinstance(step, Edit)
            old = config.get(step.path)
            if old != step.value:
                config.set(step.path, step.value)
                changes.append(f"{step.path.replace('/', '.')} {_shown(old)} -> {_shown(step.value)}")
        how = "; ".join(changes) or "by an edit above"
        yield f"truedraft fix {entry.axis}: {entry.before} -> {entry.after} ({how})"


def apply_width(native: Contract, speculative: Any, settings: Settings) -> Iterator[str]:
    """Ask for as many drafts as a trained block yields, if `settings` names one of `WIDTH` or its group.

    The scheduler, the runner and CUDA graphs all read `num_speculative_tokens` of this one config
    (`config/speculative.py`); settings that were derived from the old K are refused.
    """
    asked, trained = speculative.num_speculative_tokens, native.get("block.proposals")
    named = settings.axes and any(settings.mends(axis) for axis in WIDTH)
    if not named or trained is None or asked == trained:
        return
    derived = getattr(speculative, "num_speculative_tokens_per_batch_size", None)
    if derived or getattr(speculative, "rejection_sample_method", "standard") == "synthetic":
        yield f"truedraft fix leaves block.proposals at {asked}, not {trained}: other settings follow K"
        return
    speculative.num_speculative_tokens = trained
    yield (
        f"truedraft fix block.proposals: {asked} -> {trained} (num_speculative_tokens {asked} -> {trained})"
    )


def _shown(value: object) -> str:
    return "absent" if value is None else f"{value!s:.160}"
