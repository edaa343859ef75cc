"""A release of vLLM and one of its runners, and what all rules ask of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from truedraft.formats.engines._types import PairFiles

V1_TAPS = "v1/worker/gpu_model_runner.py"
V2_TAPS = "v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"
CONVERTER = "transformers_utils/configs/speculators/algos.py"
DFLASH = "model_executor/models/qwen3_dflash.py"
EAGLE3 = "model_executor/models/llama_eagle3.py"
DSPARK_V2 = "v1/worker/gpu/spec_decode/dspark/speculator.py"


NAMES = {
    (0, 20): "0.20.1",
    (0, 22): "0.22.1",
    (0, 23): "0.23.0",
    (0, 24): "0.24.0",
    (0, 26): "0.26.0",
    (0, 28): "0.28.0",
    (0, 30): "0.30.0",
    (0, 32): "0.32.0",
}
"""The releases that were read."""


@dataclass(frozen=True)
class Release:
    """`version`: (0, 26) means 0.26.0. `fork`: the DeepSeek-V4 branch of the founding reports."""

    version: tuple[int, int]
    runner: Literal["v1", "v2"]
    fork: bool = False

    @property
    def v1(self) -> bool:
        """Whether this is the older runner."""
        return self.runner == "v1"

    def since(self, minor: int) -> bool:
        """Whether the release is 0.`minor` or newer."""
        return self.version >= (0, minor)

    def at(self, file: str) -> str:
        """A file of this release, as a reference."""
        name = "jasl/vllm@b5c0d43b" if self.fork else f"vLLM {NAMES[self.version]}"
        return f"{name} {file}"


SINCE = {"laguna": 26, "transformers": 28}
"""Dialects that came later than DFlash itself, and the release (0.N) that registers their architecture."""


def generic(files: PairFiles) -> bool:
    """Whether the drafter runs on the generic DFlash model; Laguna's own is its producer's reference."""
    return not files.embedded and files.native.dialect != "laguna" and method(files) in ("dflash", "dspark")


def method(files: PairFiles) -> str:
    """What vLLM runs the drafter as: DeepSpec's DFlash has DSpark's architecture."""
    deepspec = files.native.dialect == "deepspec" and files.native.family == "dflash"
    return "dspark" if deepspec else files.native.family
