"""vLLM: what its releases and runners make of a drafter's config.

Read in the wheels of 0.20.1, 0.22.1, 0.23.0, 0.24.0, 0.26.0, 0.28.0, 0.30.0 and 0.32.0; the functions that
resolve taps, windows, causality and the rope of DeepSeek-V4 were taken out of each wheel and run on
synthetic configs. The fork `vllm-jasl:b5c0d43b` is known from the founding reports only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from truedraft.contract import Deployment
from truedraft.formats.engines._types import Engine, EngineId
from truedraft.formats.engines.vllm._release import NAMES, Release
from truedraft.formats.engines.vllm.attention import attention
from truedraft.formats.engines.vllm.blocks import slots
from truedraft.formats.engines.vllm.deepseek_v4 import stages
from truedraft.formats.engines.vllm.eagle3 import eagle3
from truedraft.formats.engines.vllm.hazards import hazards
from truedraft.formats.engines.vllm.refusals import refusals
from truedraft.formats.engines.vllm.rope import rope
from truedraft.formats.engines.vllm.tables import tables
from truedraft.formats.engines.vllm.taps import taps

_RULES = (refusals, taps, slots, attention, stages, rope, tables, eagle3, hazards)
_TAPS = "source of the wheel; resolvers of taps and of speculators' configs run on synthetic configs"
_WINDOWS = f"{_TAPS}, those of windows and causality too"
_LIVE = f"{_WINDOWS}; drafts compared token by token on CPU"
_FORK_RULES = (taps, slots, stages, hazards)
"""What the founding reports say of the fork; it is taken to be right in all else."""


def _engine(name: str, version: str, release: Release, state: str) -> Engine:
    rules = tuple(partial(rule, release) for rule in (_FORK_RULES if release.fork else _RULES))
    deployment = Deployment(
        runner=release.runner, prefix_cache=True, block_drop=True, kv_layout="paged", proposal="greedy"
    )
    return Engine(EngineId(name, version, release.runner), state, rules, deployment)


def _releases() -> Iterator[Engine]:
    for number, version in NAMES.items():
        state = _LIVE if version == "0.32.0" else _WINDOWS if number >= (0, 26) else _TAPS
        for runner in ("v1", "v2"):
            yield _engine("vllm", version, Release(number, runner), state)
    for runner in ("v1", "v2"):
        fork = Release((0, 24), runner, fork=True)  # type: ignore[arg-type]
        yield _engine("vllm-jasl", "b5c0d43b", fork, "the founding reports' description of its code")


VLLM = tuple(_releases())
"""Releases, older ones first."""
