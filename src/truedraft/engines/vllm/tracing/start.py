"""`TRUEDRAFT_TRACE`: begins to record once the drafter is loaded, and takes all of it back afterwards."""

from __future__ import annotations

import atexit
import logging
from pathlib import Path
from typing import Any

from truedraft.engines.vllm.live import GENERIC, drafter_of, proposals_of, runner_of, width_of
from truedraft.engines.vllm.pair import served
from truedraft.engines.vllm.release import TESTED, is_tested
from truedraft.engines.vllm.settings import Settings
from truedraft.engines.vllm.tracing.patches import Patches
from truedraft.engines.vllm.tracing.points import listen
from truedraft.engines.vllm.tracing.recorder import Recorder
from truedraft.engines.vllm.wrap import guarded

LOG = logging.getLogger("vllm.truedraft")

MOST = 2**30
"""Bytes after which no further round is recorded."""


def start(vllm_config: Any, runner: Any, settings: Settings, version: str) -> None:
    """Record the first rounds of this process's drafter, if it has one that can be traced."""
    assert settings.trace is not None
    pair, drafter = served(vllm_config), drafter_of(runner)
    model = getattr(drafter, "model", None)
    if pair is None or model is None:
        return
    which, method = runner_of(runner), str(vllm_config.speculative_config.method)
    names = {cls.__name__ for cls in type(model).__mro__}
    if not is_tested(version):
        LOG.warning("truedraft traces vLLM %s.x, this is %s: nothing is recorded", TESTED, version)
        return
    if not GENERIC & names or (which == "v2" and method == "eagle3"):
        LOG.warning("truedraft cannot trace %s on %s: nothing is recorded", type(model).__name__, which)
        return
    path = _of_this_rank(settings.trace, vllm_config.parallel_config)
    if path.is_dir():
        LOG.warning("truedraft traces nothing: %s is a directory, expected a file", path)
        return
    proposals = proposals_of(drafter)
    facts = {
        "engine": "vllm",
        "version": version,
        "runner": which,
        "method": method,
        "proposals": proposals,
        "width": width_of(drafter, which, proposals),
        "target": str(pair.target),
        "draft": str(pair.draft),
        "rank": int(vllm_config.parallel_config.rank),
        "ranks": int(vllm_config.parallel_config.tensor_parallel_size),
        "mode": settings.mode,
    }

    def failed(error: Exception) -> None:
        recorder.recording = False
        text = " ".join(str(error).split())
        LOG.warning("truedraft trace ends (%s: %.300s); vLLM runs on", type(error).__name__, text)
        guarded(recorder.write, "write the trace")
        recorder.drop()

    patches = Patches(failed)
    eager = bool(vllm_config.model_config.enforce_eager)

    def done(rounds: int, size: int) -> None:
        patches.remove()
        what = f"{rounds} rounds, {size / 1e6:.1f} MB, in {path}"
        LOG.info("truedraft trace: %s; compare: truedraft trace diff %s", what, path)

    recorder = Recorder(path, settings.trace_rounds, MOST, facts, done)
    try:
        listen(runner, recorder, patches, layers=eager)
    except BaseException:
        patches.remove()
        raise
    atexit.register(guarded, recorder.write, "write the trace")
    LOG.info("truedraft trace: recording the first %d rounds in %s", settings.trace_rounds, path)
    if not eager:
        LOG.warning("truedraft trace: layers that run compiled are not seen; --enforce-eager shows them")


def _of_this_rank(path: Path, parallel: Any) -> Path:
    """One file per worker: the first rank's has the name that was asked for."""
    replica, rank = int(getattr(parallel, "data_parallel_rank", 0) or 0), int(parallel.rank)
    marks = ([f"dp{replica}"] if replica else []) + ([f"rank{rank}"] if rank else [])
    return path.with_name(".".join([path.stem, *marks]) + path.suffix) if marks else path
