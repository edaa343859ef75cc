"""What all boots of an experiment have in common, and the job that one boot gets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truedraft.engines.vllm.experiment.arms import NO_BLOCK_DROP, NO_PREFIX_CACHE, PLAIN_ARM, Treatment
from truedraft.engines.vllm.settings import MEASURED, SET, VARIABLE


@dataclass(frozen=True)
class Asked:
    """A prompt as token ids of the target."""

    id: str
    tokens: tuple[int, ...]
    category: str = ""


@dataclass(frozen=True)
class Setup:
    """`method`, `k`, `runner` (`v1`, `v2`, `auto`): as vLLM takes them. `repeat`: passes over the prompts.

    `engine_args`: further arguments of `LLM`, last word. `overrides`, `measured`: for arms that fix.
    """

    target: Path
    draft: Path
    contract_hash: str
    method: str
    k: int
    prompts: tuple[Asked, ...]
    max_new_tokens: int
    arms: tuple[Treatment, ...]
    runner: str = "auto"
    repeat: int = 1
    prefix_caching: bool = False
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    measured: Path | None = None
    seed: int = 0

    def settings(self) -> dict[str, Any]:
        """What boots must have in common to be compared; files and prompts as hashes."""
        return {
            "contract_hash": self.contract_hash,
            "target": _digest(*_files(self.target)),
            "draft": _digest(*_files(self.draft)),
            "method": self.method,
            "k": self.k,
            "prompts": _digest(*(f"{prompt.id} {prompt.tokens}".encode() for prompt in self.prompts)),
            "max_new_tokens": self.max_new_tokens,
            "arms": [arm.name for arm in self.arms],
            "runner": self.runner,
            "repeat": self.repeat,
            "prefix_caching": self.prefix_caching,
            "engine_args": dict(self.engine_args),
            "overrides": list(self.overrides),
            "measured": "" if self.measured is None else _digest(self.measured.read_bytes()),
            "seed": self.seed,
        }

    def job(self, arm: Treatment, block: int, out: Path, log: Path) -> dict[str, Any]:
        """What `boot.py` is told; JSON."""
        speculative: dict[str, Any] | None = None
        if arm is not PLAIN_ARM:
            speculative = {"method": self.method, "model": str(self.draft), "num_speculative_tokens": self.k}
            if arm.without == NO_BLOCK_DROP:
                speculative["disable_eagle_block_drop"] = True
        return {
            "schema": 1,
            "settings": self.settings(),
            "arm": arm.name,
            "boot": block,
            "out": str(out),
            "log": str(log),
            "target": str(self.target),
            "speculative": speculative,
            "runner": self.runner,
            "prompts": [{"id": prompt.id, "tokens": list(prompt.tokens)} for prompt in self.prompts],
            "max_new_tokens": self.max_new_tokens,
            "repeat": self.repeat,
            "prefix_caching": self.prefix_caching and arm.without != NO_PREFIX_CACHE,
            "engine_args": dict(self.engine_args),
        }

    def environment(self, arm: Treatment) -> dict[str, str]:
        """The plugin's orders for an arm (`settings.py`); none of the user's own reach a boot."""
        orders = {VARIABLE: arm.switch}
        if arm.fixes:
            orders |= {SET: " ".join(self.overrides), MEASURED: str(self.measured or "")}
        return orders


def _files(directory: Path) -> list[bytes]:
    """Configs with their content, weights with their size: what tells one checkpoint from another."""
    found = []
    for path in sorted(directory.iterdir()):
        if path.suffix == ".json":
            found.append(path.name.encode() + path.read_bytes())
        elif path.suffix == ".safetensors":
            found.append(f"{path.name} {path.stat().st_size}".encode())
    return found


def _digest(*parts: bytes) -> str:
    """A short hash of parts in their order."""
    each = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(each).hexdigest()[:16]
