"""The machine on which `truedraft collect` runs: versions, processor, devices. Nothing is imported for it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    *(
        "truedraft",
        "torch",
        "transformers",
        "vllm",
        "sglang",
        "speculators",
        "flashinfer-python",
        "flash-attn",
    ),
    *("triton", "sgl-kernel", "llama-cpp-python", "tokenizers", "safetensors", "numpy", "huggingface-hub"),
)

VARIABLES = (
    *("VLLM_USE_V1", "VLLM_USE_V2_MODEL_RUNNER", "VLLM_ATTENTION_BACKEND", "VLLM_USE_FLASHINFER_SAMPLER"),
    *("VLLM_BATCH_INVARIANT", "VLLM_ENABLE_V1_MULTIPROCESSING", "SGLANG_ENABLE_SPEC_V2"),
)
"""Settings of engines that change how a drafter runs, and hold no secret."""

SECONDS = 5.0
MOST = 200


def environment_json() -> dict[str, Any]:
    """What is cheaply known. `of`: the server may be another machine."""
    return {
        "of": "the machine on which collect ran",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "gpus": _gpus(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "variables": {name: os.environ[name][:MOST] for name in VARIABLES if name in os.environ},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _cpu() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()[:MOST]
    except OSError:
        pass
    return platform.processor()[:MOST]


def _gpus() -> list[str]:
    """Name, memory and driver per device, if `nvidia-smi` is there and answers in time."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            query, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    return [
        line.strip()[:MOST] for line in done.stdout.decode(errors="replace").splitlines()[:64] if line.strip()
    ]
